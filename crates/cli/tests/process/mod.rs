//! A process of the cluster.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A process that says where it is ready, and is killed with this.
pub struct Process {
    pub child: Child,
    pub address: String,
}

impl Process {
    /// Starts it, and waits until it is ready.
    pub fn start(command: &mut Command) -> Process {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let before = said.len();
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
            let line = &said[before..];
            if line.contains("ready at ") {
                break line.trim_end().rsplit(' ').next().unwrap().to_string();
            }
        };
        // What it says later must not stop it.
        thread::spawn(move || lines.read_to_string(&mut String::new()));
        Process { child, address }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
