//! A writer of replies.

use super::Digits;

/// The version of the protocol that a client asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Protocol {
    /// RESP2: what a client speaks that says nothing.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// Replies as bytes. Types that RESP2 does not have become the ones that Redis uses in their place.
#[derive(Default)]
pub struct Writer {
    /// What was written.
    pub bytes: Vec<u8>,
    /// The version that the client speaks.
    pub protocol: Protocol,
}

impl Writer {
    /// A status, such as `OK`.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.line(text.as_bytes());
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// An error, with its code in front. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        for byte in &mut self.bytes[from..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.line(b"");
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// A count, as an integer.
    pub fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        // At once what all parts need.
        self.bytes.reserve(bytes.len() + 32);
        self.header(b'$', bytes.len() as i64);
        self.line(bytes);
    }

    /// A string of so many bytes, which the caller appends, with an end of line behind them.
    pub fn begin_bulk(&mut self, bytes: usize) {
        self.header(b'$', bytes as i64);
    }

    /// A string that may not be there.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Two => self.bulk(text),
            Protocol::Three => {
                self.header(b'=', text.len() as i64 + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.line(text);
            }
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"*-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// The header of an array; its elements follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// The header of a map; this many keys, each with its value, follow.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Two => self.header(b'*', 2 * len as i64),
            Protocol::Three => self.header(b'%', len as i64),
        }
    }

    /// The header of a set; its elements follow.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Two => self.header(b'*', len as i64),
            Protocol::Three => self.header(b'~', len as i64),
        }
    }

    /// The header of a message that answers nothing; its elements follow.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Two => self.header(b'*', len as i64),
            Protocol::Three => self.header(b'>', len as i64),
        }
    }

    /// A floating-point number, from its text.
    pub fn double(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => {
                self.bytes.push(b',');
                self.line(text.as_bytes());
            }
        }
    }

    fn header(&mut self, kind: u8, number: i64) {
        self.bytes.extend_from_slice(Digits::of(number).line(kind));
    }

    fn line(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
