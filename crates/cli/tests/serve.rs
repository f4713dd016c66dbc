//! `serve` as a process.

mod command;
mod scratch;
mod serving;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use command::{refused, stderr, stdout, timberline};
use scratch::{Scratch, remove_checkpoints};
use serving::Serving;

#[test]
fn a_server_keeps_what_it_acknowledged() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut server = Serving::new(&dir);
    assert_eq!(server.ask("SET key value\r\nSHUTDOWN\r\n"), "+OK\r\n");
    assert!(server.child.wait().unwrap().success());
    let server = Serving::new(&dir);
    assert_eq!(server.ask("GET key\r\nQUIT\r\n"), "$5\r\nvalue\r\n+OK\r\n");
}

/// The value is in 9 pieces of 1 MiB. Without the checkpoint, the server reads all records, and
/// misses the damaged one.
#[test]
fn a_server_says_which_value_lacks_pieces() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut server = Serving::new(&dir);
    let value = "x".repeat(9 << 20);
    let set = |key: &str| {
        let (key_len, len) = (key.len(), value.len());
        format!("*3\r\n$3\r\nSET\r\n${key_len}\r\n{key}\r\n${len}\r\n{value}\r\n")
    };
    let sets = ["big\n", "2", "3", "4", "5", "6", "7", "8"]
        .map(set)
        .concat();
    let replies = server.ask(&format!("{sets}SHUTDOWN\r\n"));
    assert_eq!(replies, "+OK\r\n".repeat(8));
    assert!(server.child.wait().unwrap().success());
    remove_checkpoints(&dir);
    let mut segment = File::options()
        .write(true)
        .open(dir.join("000000.segment"))
        .unwrap();
    segment.seek(SeekFrom::Start(3 << 20)).unwrap();
    segment.write_all(b"y").unwrap();
    let mut server = Serving::new(&dir);
    let lost = "lost: the value of \"big\\n\", of which pieces are gone";
    assert!(
        server.said.iter().any(|it| it.ends_with(lost)),
        "{:?}",
        server.said
    );
    let replies = server.ask("STRLEN 2\r\nGET \"big\\n\"\r\nDEL \"big\\n\"\r\nSHUTDOWN\r\n");
    // A client does not learn where files are.
    let lost = "-ERR pieces of the value are lost whose record is at byte 9441720";
    assert_eq!(replies, format!(":9437184\r\n{lost}\r\n:1\r\n"));
    assert!(server.child.wait().unwrap().success());
    let mut check = timberline();
    let output = check.arg("check").arg(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: damaged places: 1\n");
    // It was deleted since.
    assert!(
        stdout(&output).contains("no key has its value there"),
        "{}",
        stdout(&output)
    );
}

/// Bytes of memory that a process has.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Clients write and read values of 40 MB; some are refused.
#[cfg(target_os = "linux")]
#[test]
fn long_values_keep_within_the_memory() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    const LIMIT: u64 = 512 << 20;
    const LEN: usize = 40_000_000;
    let scratch = Scratch::new();
    let server = Serving::with(&scratch.path("store"), &["--memory", "512MB"]);
    let (is_over, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let (answered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                peak.fetch_max(resident(server.child.id()), Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let clients: Vec<_> = (0..6u8)
            .map(|nth| {
                let (server, answered, refused) = (&server, &answered, &refused);
                scope.spawn(move || {
                    let value = vec![b'a' + nth; LEN];
                    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\n{nth}\r\n${LEN}\r\n");
                    let set = [head.as_bytes(), &value, b"\r\n"].concat();
                    let append = format!("APPEND {nth} x\r\nGETRANGE {nth} -10 -1\r\n");
                    let get = format!("GET {nth}\r\n");
                    for round in 0..12 {
                        let Ok(mut stream) = TcpStream::connect(&server.address) else {
                            continue;
                        };
                        let request = match round % 3 {
                            0 => &set[..],
                            1 => append.as_bytes(),
                            _ => get.as_bytes(),
                        };
                        // A client that wants too much is disconnected, or gets an error.
                        let mut replies = Vec::new();
                        let asked = stream.write_all(request).and_then(|()| {
                            stream.write_all(b"QUIT\r\n")?;
                            stream.read_to_end(&mut replies)
                        });
                        let is_refused = asked.is_err()
                            || replies.starts_with(b"-")
                            || replies.starts_with(b"$-1");
                        let count = if is_refused { refused } else { answered };
                        count.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        is_over.store(true, Relaxed);
    });
    let (peak, answered) = (peak.into_inner(), answered.into_inner());
    println!("{peak} bytes, {answered} answered, {refused:?} refused");
    assert!(peak <= LIMIT, "{peak} bytes");
    assert!(answered > 0);
    assert_eq!(server.ask("PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
}

#[test]
fn the_disk_is_the_one_that_was_asked_for() {
    let scratch = Scratch::new();
    let threads = Serving::with(&scratch.path("a"), &["--disk", "threads"]);
    assert!(
        threads.said.iter().any(|it| it == "files by threads"),
        "{:?}",
        threads.said
    );
    assert_eq!(
        threads.ask("SET key value\r\nGET key\r\nQUIT\r\n"),
        "+OK\r\n$5\r\nvalue\r\n+OK\r\n"
    );
    // The choice, where nothing is said.
    let chosen = Serving::new(&scratch.path("b"));
    let line = chosen.said.iter().find(|it| it.starts_with("files by "));
    let line = line.expect("it says so");
    if line == "files by io_uring" {
        let ring = Serving::with(&scratch.path("c"), &["--disk", "uring"]);
        assert!(ring.said.contains(line), "{:?}", ring.said);
    } else {
        let mut command = timberline();
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--disk",
            "uring",
            "--dir",
        ]);
        command.arg(scratch.path("c"));
        let refused = refused(command);
        assert!(
            refused.contains("--disk uring: io_uring is not available"),
            "{refused}"
        );
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let file = scratch.path("file");
    std::fs::write(&file, "").unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (args, said) in [
        (&["--listen", "here"][..], "--listen"),
        (
            &["--listen", "203.0.113.1:1"],
            "--listen: can't listen at 203.0.113.1:1",
        ),
        (
            &["--listen", "localhost:7820"],
            "an IP address and a port, such as 127.0.0.1:6379",
        ),
        (&["--metrics", "here"], "an IP address and a port"),
        (&["--memory", "1"], "at least 16MB"),
        (&["--memory", "-5"], "'--memory <BYTES>': at least 16MB"),
        (&["--threads", "x"], "a whole number from 1 to 1024"),
        (&["--max-clients", "x"], "a whole number from 1 to "),
        (&["--backups", file], "--backups "),
        (&["--backups", file], "file: this is no folder"),
        (
            &["--listen", "127.0.0.1:0", "--metrics", &taken],
            &format!("--metrics: can't listen at {taken}: "),
        ),
        (&["--slow-nodes", "0"], "--index-fast-memory"),
        (
            &["--cache-fast-memory", "64MB", "--slow-nodes", "777"],
            "node 777",
        ),
        (&["--index-map", "hash"], "give art or btree"),
        (
            &["--index-fast-memory", "64MB", "--slow-nodes", "777"],
            "node 777",
        ),
        (&["--durability", "some"], "interval"),
        (
            &["--capacity", "16MB", "--listen", "127.0.0.1:0"],
            "--capacity: a store has space for 8 segments of 64 MB: give at least 512MB",
        ),
        (&["--evict"], "--capacity"),
        (&["--password-file", file], "its first line is empty"),
        (
            &["--password-file", "/nowhere"],
            "--password-file /nowhere: ",
        ),
        (&["--tls-port", "1"], "--tls-cert-file"),
        (&["--tls-auth-clients", "some"], "optional"),
        (
            &[
                "--listen",
                "127.0.0.1:1",
                "--tls-port",
                "1",
                "--tls-cert-file",
                "/nowhere",
                "--tls-key-file",
                "/nowhere",
            ],
            "--tls-port 1: --listen has this port, too",
        ),
        (
            &[
                "--tls-port",
                "0",
                "--tls-cert-file",
                "/nowhere",
                "--tls-key-file",
                "/nowhere",
            ],
            match cfg!(feature = "tls") {
                true => "--tls-cert-file /nowhere: ",
                false => "this build has no TLS",
            },
        ),
        (&["--acl-file", "/nowhere"], "--acl-file /nowhere: "),
    ] {
        let mut command = timberline();
        command.args(["serve", "--dir", dir]).args(args);
        let line = refused(command);
        assert!(line.contains(said), "{args:?}: {line}");
    }
    let mut command = timberline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--dir", file]);
    let line = refused(command);
    assert!(
        line.contains("--dir ") && line.contains("file: this is no folder"),
        "{line}"
    );
}

/// What a server writes to stderr that serves these commands, and is started with these arguments.
fn logged(args: &[&str], commands: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let mut command = timberline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--dir"]);
    command.arg(scratch.path("store")).args(args);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    while said
        .last()
        .is_none_or(|it: &String| !it.contains("ready at "))
    {
        said.push(lines.next().expect("it says where it listens").unwrap());
    }
    let ready = said.last().unwrap();
    let address = ready
        .split("ready at ")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    said.extend(lines.map(Result::unwrap));
    assert!(child.wait().unwrap().success());
    said
}

#[test]
fn events_are_logged_as_lines_for_people_or_as_json() {
    // Each command is slow.
    let commands = "CONFIG SET slowlog-log-slower-than 0\r\nAUTH nobody x\r\nSHUTDOWN\r\n";
    let lines = logged(&["--log-format", "json", "--log-level", "debug"], commands);
    let events: Vec<serde_json::Value> = lines
        .iter()
        .map(|it| serde_json::from_str(it).expect("every line is an object"))
        .collect();
    let named = |message: &str| events.iter().find(|it| it["message"] == message);
    let slow = named("a command was slow").expect("it is logged");
    assert_eq!(
        (&slow["level"], &slow["command"]),
        (&"info".into(), &"config".into())
    );
    assert!(slow["micros"].is_u64() && slow["time"].as_str().unwrap().ends_with('Z'));
    let refused = named("a user is refused").expect("it is logged");
    assert_eq!(
        (&refused["level"], &refused["user"]),
        (&"warn".into(), &"nobody".into())
    );
    for message in [
        "a connection begins",
        "the server stops",
        "a connection ends",
    ] {
        assert!(named(message).is_some(), "{message}: {lines:?}");
    }
    let lines = logged(&["--log-level", "warn"], commands);
    let events: Vec<&String> = lines.iter().filter(|it| it.contains("Z ")).collect();
    assert_eq!(events.len(), 1, "{lines:?}");
    assert!(events[0].contains(" WARN a user is refused ") && events[0].contains("user=nobody"));
}

/// `timberline COMMAND FROM TO ARGS`, which succeeds; its output.
fn copied(command: &str, [from, to]: [&str; 2], args: &[&str]) -> String {
    let mut copy = timberline();
    let output = copy.args([command, from, to]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn a_store_is_backed_up_while_it_is_served_and_restored() {
    let scratch = Scratch::new();
    let [dir, backups, again, password] =
        ["store", "backups", "again", "password"].map(|name| scratch.path(name));
    std::fs::write(&password, "secret\n").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_string();
    let password = ["--password-file", &text(&password)];
    let auth = "AUTH secret\r\n";
    {
        let folder = text(&backups);
        let server = Serving::with(&dir, &[&["--backups", &folder][..], &password].concat());
        server.ask(&format!("{auth}SET key old\r\nQUIT\r\n"));
        let said = copied("backup", [&server.address, "monday"], &password);
        assert!(said.contains(" segments, "), "{said}");
        server.ask(&format!("{auth}SET key new\r\nQUIT\r\n"));

        let refusals = [
            ("monday", &password[..], "is not empty"),
            ("../monday", &password, "no slashes"),
            (".", &password, "does not begin with a dot"),
            ("tuesday", &[], "NOAUTH"),
        ];
        for (name, args, why) in refusals {
            let mut command = timberline();
            command.args(["backup", &server.address, name]).args(args);
            let line = refused(command);
            assert!(line.contains(why), "{name}: {line}");
        }
        let mut command = timberline();
        command.arg("backup").arg(&dir).arg(&again);
        assert!(refused(command).contains("name its server's address"));
    }
    let monday = text(&backups.join("monday"));
    copied("restore", [&monday, &text(&again)], &[]);
    for (folder, value) in [(text(&again), "old"), (text(&dir), "new")] {
        let copy = text(&scratch.path(value));
        copied("backup", [&folder, &copy], &[]);
        let server = Serving::new(copy.as_ref());
        let said = server.ask("GET key\r\nQUIT\r\n");
        assert_eq!(said, format!("$3\r\n{value}\r\n+OK\r\n"));
        let mut command = timberline();
        command.args(["backup", &server.address, "name"]);
        assert!(refused(command).contains("start it with --backups"));
    }
    for (command, from) in [("restore", &backups), ("backup", &backups)] {
        let mut copy = timberline();
        copy.arg(command).arg(from).arg(scratch.path("none"));
        let line = refused(copy);
        assert!(line.contains("there is no "), "{line}");
    }
}
