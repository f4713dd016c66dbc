//! A writer of replies.

use std::sync::Arc;

use super::Digits;
use crate::memory::{Memory, Room, UNCOUNTED};

/// The least that bytes in memory that is counted get at once.
const LEAST: usize = 512;

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
pub struct Writer {
    /// What was written.
    pub bytes: Vec<u8>,
    /// The version that the client speaks.
    pub protocol: Protocol,
    /// Whether what there is no memory for is left out. Otherwise it is counted in any case.
    pub(crate) refuses: bool,
    room: Room,
    /// Bytes of it that may be there before the memory is asked for more.
    granted: usize,
    /// Something was left out.
    is_cut: bool,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            bytes: Vec::new(),
            protocol: Protocol::default(),
            refuses: false,
            room: Room::default(),
            granted: usize::MAX,
            is_cut: false,
        }
    }
}

/// Memory.
impl Writer {
    /// One whose bytes are counted when they are more than so many.
    pub(crate) fn counted(memory: &Arc<Memory>, from: usize) -> Writer {
        Writer {
            room: Room::new(memory),
            granted: from,
            ..Writer::default()
        }
    }

    /// Bytes of memory that are not counted.
    pub(crate) fn uncounted(&self) -> usize {
        self.bytes.capacity().saturating_sub(self.room.bytes())
    }

    /// Whether there was no memory for some of what was written.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Removes what was written behind so many bytes, and gives its memory back.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        if self.room.bytes() > 0 {
            self.bytes.shrink_to(UNCOUNTED);
            self.room.resize(self.bytes.capacity());
            self.granted = self.bytes.capacity().max(UNCOUNTED);
        } else if self.is_cut {
            self.granted = UNCOUNTED;
        }
        self.is_cut = false;
    }

    /// Removes all that was written, and gives its memory back.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > UNCOUNTED {
            self.bytes = Vec::new();
        }
        self.truncate(0);
    }

    /// Gets memory for so many bytes that will be written; says whether there is so much.
    pub(crate) fn promise(&mut self, bytes: usize) -> bool {
        let refuses = std::mem::replace(&mut self.refuses, true);
        let fits = self.fits(bytes);
        self.refuses = refuses;
        fits
    }

    /// Takes what was written, with its memory.
    pub(crate) fn take(&mut self) -> Writer {
        let empty = Writer {
            bytes: Vec::new(),
            protocol: self.protocol,
            refuses: self.refuses,
            room: self.room.another(),
            granted: 0,
            is_cut: false,
        };
        std::mem::replace(self, empty)
    }

    /// Adds what another one has written, with its memory.
    pub(crate) fn append(&mut self, mut other: Writer) {
        if other.bytes.is_empty() {
            return;
        }
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
            std::mem::swap(&mut self.room, &mut other.room);
        } else {
            self.bytes.append(&mut other.bytes);
            self.room.resize(self.room.bytes() + other.room.bytes());
        }
        self.granted = self.room.bytes().max(UNCOUNTED);
    }

    /// Whether so many bytes more can be written.
    pub(crate) fn fits(&mut self, more: usize) -> bool {
        self.bytes.len() + more <= self.granted || self.grow(self.bytes.len() + more)
    }

    /// Gets memory for this many bytes in all.
    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        if self.is_cut {
            return false;
        }
        let some = (needed + needed / 4).max(LEAST);
        let fitting = [some, needed];
        let found = fitting.into_iter().find(|it| self.room.try_grow(*it));
        let granted = match found {
            Some(granted) => granted,
            None if self.refuses && needed > UNCOUNTED => {
                self.is_cut = true;
                self.granted = 0;
                return false;
            }
            None => {
                self.room.resize(needed);
                needed
            }
        };
        self.bytes.reserve_exact(granted - self.bytes.len());
        self.granted = granted;
        true
    }
}

impl Writer {
    /// A status, such as `OK`.
    pub fn simple(&mut self, text: &str) {
        self.add(&[b"+", text.as_bytes(), END]);
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.add(&[b"+OK\r\n"]);
    }

    /// An error, with its code in front. Line breaks become spaces. It is short, and never left
    /// out.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// The same with bytes that a client sent, which may be no text.
    pub(crate) fn error_bytes(&mut self, text: &[u8]) {
        self.bytes.push(b'-');
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text);
        for byte in &mut self.bytes[from..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(END);
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
        let mut length = Digits::of(bytes.len() as i64);
        self.add(&[length.line(b'$'), bytes, END]);
    }

    /// A string of so many bytes, which the caller appends, with an end of line behind them. Says
    /// whether there is memory for it.
    #[must_use]
    pub fn begin_bulk(&mut self, bytes: usize) -> bool {
        let fits = self.fits(bytes + 32);
        self.header(b'$', bytes as i64);
        fits
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
                let mut length = Digits::of(text.len() as i64 + 4);
                self.add(&[length.line(b'='), b"txt:", text, END]);
            }
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.add(&[match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        }]);
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.add(&[match self.protocol {
            Protocol::Two => b"*-1\r\n",
            Protocol::Three => b"_\r\n",
        }]);
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
                self.add(&[b",", text.as_bytes(), END]);
            }
        }
    }

    fn header(&mut self, kind: u8, number: i64) {
        self.add(&[Digits::of(number).line(kind)]);
    }

    /// Writes all parts, or none of them if there is no memory for them.
    #[inline]
    fn add(&mut self, parts: &[&[u8]]) {
        let len = parts.iter().map(|it| it.len()).sum();
        if self.fits(len) {
            self.bytes.reserve(len);
            for part in parts {
                self.bytes.extend_from_slice(part);
            }
        }
    }
}

/// The end of a line.
const END: &[u8] = b"\r\n";
