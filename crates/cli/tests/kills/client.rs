//! A connection that speaks RESP2, and learns of the server's end by an error.

#[path = "../../../server/tests/client/reply.rs"]
mod reply;

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

pub use reply::{Reply, encoded};

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
        Reply::read(&mut self.0, &mut Vec::new())
    }
}
