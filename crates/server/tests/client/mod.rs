//! A server in this process, and clients that speak bytes.

#![allow(dead_code, reason = "each test file uses some of it")]

mod reply;

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use timberline_server::{Error, Handle, Options, Server};

use reply::Reply;
pub use reply::encoded;

/// A folder of one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server on a thread of its own, which stops with this.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    pub tls: Vec<SocketAddr>,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    pub fn new(folder: &Folder) -> Running {
        Running::with(folder, |_| {})
    }

    pub fn with(folder: &Folder, change: impl FnOnce(&mut Options)) -> Running {
        let mut options = Options::new(folder.0.join("store"));
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        options.threads = 2;
        change(&mut options);
        let server = Server::open(options).unwrap();
        let metrics = server.metrics_address();
        let tls = server.tls_addresses().to_vec();
        let (address, handle) = (server.addresses()[0], server.handle());
        let thread = std::thread::spawn(move || server.run());
        Running {
            address,
            metrics,
            tls,
            handle,
            thread: Some(thread),
        }
    }

    pub fn client(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(self.address).unwrap();
        // A server that hangs fails its test instead of stopping it for ever.
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Client::new(stream)
    }

    /// Stops it, and waits until all is on the disk.
    pub fn stop(mut self) {
        self.end().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Result<(), Error> {
        self.thread.take().map_or(Ok(()), |it| it.join().unwrap())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.handle.shutdown();
        self.thread.take().map_or(Ok(()), |it| it.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end().unwrap();
        }
    }
}

/// A client.
pub struct Client<S: Read + Write> {
    stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client {
            stream: BufReader::new(stream),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// What it speaks over.
    pub fn stream(&mut self) -> &mut S {
        self.stream.get_mut()
    }

    /// Sends what the server may not want any more.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// The next bytes, this many unless the connection ends.
    pub fn next(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = (&mut self.stream).take(most as u64).read_to_end(&mut bytes);
        bytes
    }

    /// Sends an inline command, and returns its reply's bytes.
    pub fn ask(&mut self, line: &str) -> Vec<u8> {
        self.send(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    /// The same, for replies that are text.
    pub fn says(&mut self, line: &str) -> String {
        String::from_utf8(self.ask(line)).unwrap()
    }

    /// A field of a section of INFO.
    pub fn info<T: FromStr>(&mut self, section: &str, name: &str) -> T {
        let text = self.says(&format!("INFO {section}"));
        let fields = text.lines().filter_map(|it| it.split_once(':'));
        let mut values = fields.filter(|it| it.0 == name).map(|it| it.1);
        let value = values.next().and_then(|it| it.parse().ok());
        value.unwrap_or_else(|| panic!("{name}: {text}"))
    }

    /// Sends a command as an array.
    pub fn command(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.send(&encoded(args));
        self.reply()
    }

    /// The bytes of one reply.
    pub fn reply(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Reply::read(&mut self.stream, &mut bytes).expect("the connection goes on");
        bytes
    }

    /// What comes until the server closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A connection that is reset ends, too.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }
}
