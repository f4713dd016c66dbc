//! `bench --live`, tested from outside: the printed address, the page during the run, and a port in
//! use.

mod command;
mod scratch;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;

use command::{bench, refused, refuses};
use scratch::Scratch;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_is_there_as_long_as_the_run() {
    let scratch = Scratch::new();
    let mut command = bench(&scratch, &["--live", "--quiet", "--rounds=10000"]);
    let mut run = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("live view: http://");
    let address = address.and_then(|it| it.strip_suffix('/')).unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    assert!(get(address, "/").contains("<title>timberline bench, live</title>"));
    let is_measured = || {
        let snapshot = get(address, "/snapshot");
        snapshot.contains(r#""placement":"timberline""#) && snapshot.contains(r#""measured":true"#)
    };
    while !is_measured() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "the address is told once");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refuses(
        &["--live", &port],
        &[&format!("--live {port}"), "another port"],
    );
    let line = refused(bench(&Scratch::new(), &[&format!("--live={port}")]));
    assert!(line.contains("in use"), "{line}");
}
