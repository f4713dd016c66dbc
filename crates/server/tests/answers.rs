//! Answers beside those of `redis-server`, byte for byte, where that is installed;
//! `cargo xtask answers` fetches it.

#![cfg(unix)]

mod client;
mod nodes;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Folder, Running};
use nodes::{cluster, node, pool};

/// Debian's server on a socket in a folder; killed with this.
struct Redis {
    child: Child,
    path: std::path::PathBuf,
}

impl Redis {
    /// The one that a variable names, or the installed one; `None` if there is none.
    fn new(folder: &Folder) -> Option<Redis> {
        // The names of sockets are short: relative to the folder they are.
        let path = folder.0.join("redis");
        let named = std::env::var_os("TIMBERLINE_REDIS_SERVER");
        let mut command = Command::new(named.clone().unwrap_or("redis-server".into()));
        command
            .current_dir(&folder.0)
            .args(["--port", "0", "--save", "", "--unixsocket", "redis"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match child {
            Ok(child) => Some(Redis { child, path }),
            Err(error) => match named {
                Some(named) => panic!("{}: {error}", named.display()),
                None => {
                    eprintln!("skipped: redis-server is not installed");
                    None
                }
            },
        }
    }

    fn client(&self) -> Client<UnixStream> {
        let began = Instant::now();
        loop {
            match UnixStream::connect(&self.path) {
                Ok(stream) => return Client::new(stream),
                Err(error) if began.elapsed() > Duration::from_secs(60) => {
                    panic!("redis-server does not listen: {error}")
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a reply, sorted: for replies whose order is nobody's promise.
fn sorted(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = reply.split(|&it| it == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort();
    lines
}

/// A server alone, and a cluster of one node.
fn compare_all(script: &str) {
    compare(script);
    let folder = Folder::new();
    let server = node(&folder, cluster(&pool(2)));
    compare_with(&folder, &server, script, true);
}

fn compare(script: &str) {
    let folder = Folder::new();
    compare_with(&folder, &Running::new(&folder), script, false);
}

/// A line whose keys, as Redis finds them, are of one slot.
fn in_one_slot(redis: &mut Client<UnixStream>, line: &str) -> String {
    let listed = redis.ask(&format!("COMMAND GETKEYS {line}"));
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut keys: Vec<&str> = listed.split("\r\n").skip(2).step_by(2).collect();
    keys.retain(|it| listed.starts_with('*') && !it.is_empty());
    let mut words: Vec<String> = line.split(' ').map(String::from).collect();
    let name = words[0].to_ascii_uppercase();
    let pattern = match &name[..] {
        "KEYS" => Some(1),
        "SCAN" => words.iter().position(|it| it == "MATCH").map(|it| it + 1),
        _ => None,
    };
    if let Some(word) = pattern.and_then(|it| words.get_mut(it)) {
        word.insert_str(0, "{t}");
    }
    let mut keys = keys.into_iter().peekable();
    for word in words.iter_mut().skip(1) {
        let quotes = word.len() - word.trim_start_matches('"').len();
        if keys.next_if(|key| *key == word.trim_matches('"')).is_some() {
            word.insert_str(quotes, "{t}");
        }
    }
    assert_eq!(keys.next(), None, "{line}");
    words.join(" ")
}

fn compare_with(folder: &Folder, server: &Running, script: &str, in_slot: bool) {
    let Some(redis) = Redis::new(folder) else {
        return;
    };
    let mut finder = redis.client();
    let mut differ = Vec::new();
    for protocol in ["HELLO 2", "HELLO 3"] {
        let (mut ours, mut theirs) = (server.client(), redis.client());
        for client_line in [protocol, "FLUSHALL"] {
            ours.ask(client_line);
            theirs.ask(client_line);
        }
        let lines = script.lines().map(str::trim);
        for line in lines.filter(|it| !it.is_empty() && !it.starts_with('#')) {
            let (command, any_order) = match line.strip_prefix('~') {
                Some(command) => (command, true),
                None => (line, false),
            };
            let command = match in_slot {
                true => &in_one_slot(&mut finder, command)[..],
                false => command,
            };
            let (our, their) = (ours.ask(command), theirs.ask(command));
            let same = our == their || any_order && sorted(&our) == sorted(&their);
            let (our, their) = (our.escape_ascii(), their.escape_ascii());
            if !same {
                differ.push(format!(
                    "{protocol}: {command}\nours:   {our}\nRedis': {their}"
                ));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn connections() {
    compare(include_str!("answers/connection.txt"));
}

#[test]
fn strings() {
    compare_all(include_str!("answers/strings.txt"));
}

#[test]
fn keys() {
    compare_all(include_str!("answers/keys.txt"));
}

#[test]
fn transactions() {
    compare_all(include_str!("answers/transactions.txt"));
}

#[test]
fn hashes() {
    compare_all(include_str!("answers/hashes.txt"));
}

#[test]
fn sets() {
    compare_all(include_str!("answers/sets.txt"));
}

#[test]
fn users() {
    compare(include_str!("answers/acl.txt"));
}

/// Each of our commands is in the categories that Redis has it in, and its subcommands too.
#[test]
fn categories() {
    let folder = Folder::new();
    let Some(redis) = Redis::new(&folder) else {
        return;
    };
    let server = Running::new(&folder);
    let (mut ours, mut theirs) = (server.client(), redis.client());
    let names = |reply: Vec<u8>| -> BTreeSet<String> {
        let reply = String::from_utf8(reply).unwrap();
        reply
            .lines()
            .filter(|it| !it.starts_with(['*', '$']))
            .map(String::from)
            .collect()
    };
    let all = names(theirs.ask("ACL CAT"));
    let lists = |client: &mut dyn FnMut(&str) -> Vec<u8>| -> Vec<BTreeSet<String>> {
        all.iter()
            .map(|it| names(client(&format!("ACL CAT {it}"))))
            .collect()
    };
    let our = lists(&mut |line| ours.ask(line));
    let their = lists(&mut |line| theirs.ask(line));
    let known: BTreeSet<String> = our.iter().flatten().cloned().collect();
    let redis_knows: BTreeSet<String> = their.iter().flatten().cloned().collect();
    for ((name, our), their) in all.iter().zip(our).zip(their) {
        let our: BTreeSet<_> = our.intersection(&redis_knows).collect();
        let their: BTreeSet<_> = their.intersection(&known).collect();
        assert_eq!(our, their, "in {name}");
    }
}

/// HELP has the form of Redis', and names subcommands that both have.
#[test]
fn help() {
    let folder = Folder::new();
    let Some(redis) = Redis::new(&folder) else {
        return;
    };
    let server = Running::new(&folder);
    let (mut ours, mut theirs) = (server.client(), redis.client());
    for command in ["ACL", "CLIENT", "COMMAND", "CONFIG", "PUBSUB", "SLOWLOG"] {
        let line = format!("{command} HELP");
        let (our, their) = (ours.says(&line), theirs.says(&line));
        let our: Vec<&str> = our.lines().skip(1).collect();
        let their: Vec<&str> = their.lines().skip(1).collect();
        assert_eq!(our[0], their[0]);
        assert_eq!(our[our.len() - 2..], their[their.len() - 2..]);
        for name in &our[1..our.len() - 2] {
            let is_it = |it: &&str| it.split(' ').next() == Some(name);
            // A later Redis has this one.
            assert!(*name == "+SETINFO" || their.iter().any(is_it), "{name}");
            let said = ours.says(&format!("{command} {}", &name[1..]));
            assert!(!said.contains("unknown subcommand"), "{command} {said}");
        }
    }
}

#[test]
fn lists() {
    compare_all(include_str!("answers/lists.txt"));
}

#[test]
fn sorted_sets() {
    compare_all(include_str!("answers/sorted.txt"));
}

#[test]
fn combinations_of_sorted_sets() {
    compare_all(include_str!("answers/combinations.txt"));
}

/// How many keys INFO says that commands have found and missed.
fn lookups<S: Read + Write>(client: &mut Client<S>) -> [u64; 2] {
    ["keyspace_hits", "keyspace_misses"].map(|name| client.info("stats", name))
}

/// Commands that read count the keys that they find and miss as Redis does.
#[test]
fn hits_and_misses() {
    let folder = Folder::new();
    let Some(redis) = Redis::new(&folder) else {
        return;
    };
    let server = Running::new(&folder);
    let (mut ours, mut theirs) = (server.client(), redis.client());
    let mut differ = Vec::new();
    let script = include_str!("answers/lookups.txt");
    for line in script.lines().filter(|it| !it.starts_with('#')) {
        let before = (lookups(&mut ours), lookups(&mut theirs));
        ours.ask(line);
        theirs.ask(line);
        let after = (lookups(&mut ours), lookups(&mut theirs));
        let counted = |before: [u64; 2], after: [u64; 2]| [0, 1].map(|at| after[at] - before[at]);
        let (our, their) = (counted(before.0, after.0), counted(before.1, after.1));
        if our != their {
            differ.push(format!("{line}: {our:?}, Redis' {their:?}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
