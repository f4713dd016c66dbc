//! `serve` as a process.

mod command;
mod scratch;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use command::{refused, timberline};
use scratch::Scratch;

/// A server that is killed with this.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn new(dir: &Path) -> Serving {
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
            .arg(dir);
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
        (&["--durability", "some"], "interval"),
        (
            &["--capacity", "16MB", "--listen", "127.0.0.1:0"],
            "a capacity of 16777216 bytes",
        ),
        (&["--password-file", file], "its first line is empty"),
        (
            &["--password-file", "/nowhere"],
            "--password-file /nowhere: ",
        ),
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
