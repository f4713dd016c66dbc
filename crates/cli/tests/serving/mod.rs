//! `timberline serve` as a process.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::timberline;

/// A server that is killed with this.
pub struct Serving {
    pub child: Child,
    pub address: String,
    /// Lines in front of the one that says where it listens.
    pub said: Vec<String>,
}

/// A server with one thread at a free port, unless the arguments name another number.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = timberline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--dir"]);
    command.arg(dir).args(args).stderr(Stdio::piped());
    if !args.contains(&"--threads") {
        command.args(["--threads", "1"]);
    }
    command
}

impl Serving {
    pub fn new(dir: &Path) -> Serving {
        Serving::with(dir, &[])
    }

    pub fn with(dir: &Path, args: &[&str]) -> Serving {
        let mut child = command(dir, args).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(|it| it.unwrap());
        let mut said = Vec::new();
        let ready = loop {
            let Some(line) = lines.next() else {
                panic!("it does not say where it listens, but: {said:?}");
            };
            if line.contains("ready at ") {
                break line;
            }
            said.push(line);
        };
        let address = ready.rsplit(' ').next().unwrap().into();
        Serving {
            child,
            address,
            said,
        }
    }

    /// Sends commands, and returns all replies until the server closes the connection.
    pub fn ask(&self, commands: &str) -> String {
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
