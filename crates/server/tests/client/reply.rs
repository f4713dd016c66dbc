//! Commands and replies as bytes: what clients of tests read and write, of other crates too.

use std::io::{self, BufRead};

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A simple string, or what is a line of RESP3.
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Option<Vec<u8>>),
    /// An array, or in RESP3 a set, a push, or the keys and values of a map.
    Array(Vec<Reply>),
}

impl Reply {
    /// Reads one, and appends its bytes to `bytes`.
    ///
    /// # Errors
    /// The connection failed, or ended before the reply did.
    ///
    /// # Panics
    /// It is no reply.
    pub fn read(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<Reply> {
        let start = bytes.len();
        from.read_until(b'\n', bytes)?;
        let Some(line) = bytes[start..].strip_suffix(b"\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (kind, rest) = line.split_first().expect("a line has a kind");
        let text = String::from_utf8_lossy(rest).into_owned();
        let number = || text.parse::<i64>().expect("it is a number");
        Ok(match kind {
            b'+' | b'_' | b'#' | b',' | b'(' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(number()),
            b'$' | b'=' if number() < 0 => Reply::Bulk(None),
            b'$' | b'=' => {
                let (start, len) = (bytes.len(), number() as usize);
                bytes.resize(start + len + 2, 0);
                from.read_exact(&mut bytes[start..])?;
                Reply::Bulk(Some(bytes[start..][..len].to_vec()))
            }
            b'*' | b'~' | b'>' | b'%' => {
                let parts = number() * if *kind == b'%' { 2 } else { 1 };
                let parts = (0..parts).map(|_| Reply::read(from, bytes));
                Reply::Array(parts.collect::<io::Result<_>>()?)
            }
            _ => panic!("no reply: {}", bytes[start..].escape_ascii()),
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
