//! Answers beside those of `redis-server`, byte for byte, where that is installed;
//! `cargo xtask answers` fetches it.

#![cfg(unix)]

mod client;

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Folder, Running};

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
                None => None,
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

fn compare(script: &str) {
    let folder = Folder::new();
    let Some(redis) = Redis::new(&folder) else {
        eprintln!("skipped: redis-server is not installed");
        return;
    };
    let server = Running::new(&folder);
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
    compare(include_str!("answers/strings.txt"));
}

#[test]
fn keys() {
    compare(include_str!("answers/keys.txt"));
}

#[test]
fn transactions() {
    compare(include_str!("answers/transactions.txt"));
}

#[test]
fn hashes() {
    compare(include_str!("answers/hashes.txt"));
}

#[test]
fn sets() {
    compare(include_str!("answers/sets.txt"));
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
        eprintln!("skipped: redis-server is not installed");
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

#[test]
fn lists() {
    compare(include_str!("answers/lists.txt"));
}

#[test]
fn sorted_sets() {
    compare(include_str!("answers/sorted.txt"));
}

#[test]
fn combinations_of_sorted_sets() {
    compare(include_str!("answers/combinations.txt"));
}
