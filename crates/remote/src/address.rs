//! Where something lies in the memory pool.

use std::fmt;

/// Bits of an address that are the offset within a server.
const OFFSET_BITS: u32 = 48;

/// A memory server, by its number in the pool, from 0.
pub type ServerId = u16;

/// A compute server, by a number that no other one has had since the memory servers were started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ComputeId(u64);

impl ComputeId {
    /// Bits of the number.
    pub const BITS: u32 = 40;

    /// The compute server of a number, of which the lower [`BITS`](Self::BITS) bits count. `None`
    /// if they are all 0: that is nobody.
    pub const fn new(number: u64) -> Option<ComputeId> {
        match number & ((1 << Self::BITS) - 1) {
            0 => None,
            number => Some(ComputeId(number)),
        }
    }

    /// Its number, not 0.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ComputeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010x}", self.0)
    }
}

/// A byte of the pool: a memory server and an offset there. It is a multiple of 8 wherever an
/// operation takes one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(u64);

impl Address {
    /// An offset in bytes, below 2⁴⁸, in a server's memory.
    pub const fn new(server: ServerId, offset: u64) -> Address {
        assert!(offset < 1 << OFFSET_BITS);
        Address((server as u64) << OFFSET_BITS | offset)
    }

    /// The address that a word stands for.
    pub const fn of_word(word: u64) -> Address {
        Address(word)
    }

    /// The word that stands for this address.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The memory server.
    pub const fn server(self) -> ServerId {
        (self.0 >> OFFSET_BITS) as ServerId
    }

    /// The offset in bytes within the server's memory.
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    /// The address so many bytes further on, on the same server.
    pub const fn add(self, bytes: u64) -> Address {
        Address::new(self.server(), self.offset() + bytes)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} of memory server {}", self.offset(), self.server())
    }
}
