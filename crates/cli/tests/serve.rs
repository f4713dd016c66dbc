//! `serve` as a process.

mod command;
mod scratch;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use command::{refused, stderr, stdout, timberline};
use scratch::Scratch;

/// A server that is killed with this.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn new(dir: &Path) -> Serving {
        Serving::with(dir, &[])
    }

    fn with(dir: &Path, args: &[&str]) -> Serving {
        let mut command = timberline();
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--threads",
                "1",
                "--dir",
            ])
            .arg(dir)
            .args(args);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut ready = lines
            .map(|it| it.unwrap())
            .filter(|it| it.contains("ready at "));
        let ready = ready.next().expect("it says where it listens");
        let address = ready.rsplit(' ').next().unwrap().into();
        Serving { child, address }
    }

    /// Sends commands, and returns all replies until the server closes the connection.
    fn ask(&self, commands: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(commands.as_bytes()).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        replies
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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

#[test]
fn bad_input_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let file = scratch.path("file");
    std::fs::write(&file, "").unwrap();
    let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
    for (args, said) in [
        (&["--listen", "here"][..], "--listen"),
        (
            &["--listen", "203.0.113.1:1"],
            "can't listen at 203.0.113.1:1",
        ),
        (&["--memory", "1"], "at least 16MB"),
        (&["--slow-nodes", "0"], "--index-fast-memory"),
        (
            &["--index-fast-memory", "64MB", "--slow-nodes", "777"],
            "node 777",
        ),
        (&["--durability", "some"], "interval"),
        (
            &["--capacity", "16MB", "--listen", "127.0.0.1:0"],
            "a capacity of 16777216 bytes",
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
    assert!(refused(command).contains("--dir"));
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
