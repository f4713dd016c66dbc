//! A connection that speaks RESP2, and learns of the server's end by an error.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(address: &str) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        // A server that hangs fails its test instead of stopping it for ever.
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Sends one command, and returns its reply.
    pub fn ask(&mut self, args: &[&str]) -> io::Result<Reply> {
        let args: Vec<&[u8]> = args.iter().map(|it| it.as_bytes()).collect();
        self.send(&encoded(&args))?;
        self.reply()
    }

    pub fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().expect("it is a number");
        Ok(match kind {
            "+" => Reply::Simple(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(number()),
            "$" if number() < 0 => Reply::Bulk(None),
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(Some(bytes))
            }
            "*" => {
                let parts = (0..number()).map(|_| self.reply());
                Reply::Array(parts.collect::<io::Result<_>>()?)
            }
            other => panic!("a reply begins with {other:?}"),
        })
    }
}

/// A command as an array.
pub fn encoded(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
