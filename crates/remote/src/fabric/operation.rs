//! What a memory server does for a compute server.

use crate::address::{Address, ComputeId, ServerId};

/// One operation on one memory server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads so many words. Words are read one by one: another operation may come between.
    Read(Address, usize),
    /// Writes words, one by one.
    Write(Address, Vec<u64>),
    /// Several writes to one server, at least one, in this order: who sees a word of one sees all
    /// words of those before it. They share a round trip, as writes of one queue pair do.
    WriteInOrder(Vec<(Address, Vec<u64>)>),
    /// Replaces the word `old` by `new`, if it is there. Answers with the word that was there.
    CompareExchange {
        /// The word's place.
        at: Address,
        /// What it must be.
        old: u64,
        /// What it becomes.
        new: u64,
    },
    /// Adds to a word. Answers with the word before.
    FetchAdd(Address, u64),
    /// Asks the server's own processor.
    Call(ServerId, Call),
}

/// A question to a memory server's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Memory for nodes that no one else has, at most a chunk: [`Reply::Words`] are their offsets.
    Allocate,
    /// Takes a node's memory back.
    GiveBack(Address),
    /// What the server is doing.
    Load,
    /// Carry out nothing more for this compute server. When the answer comes, nothing of it is
    /// under way, and nothing ever will be.
    Fence(ComputeId),
    /// Whether it was fenced: [`Reply::Word`] is 1 or 0.
    IsFenced(ComputeId),
    /// Where a key is: [`Reply::Found`].
    Find(Find),
}

/// A question for the leaf that has a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Find {
    /// The node to begin at.
    pub from: Address,
    /// Its height.
    pub height: u8,
    /// The key.
    pub key: u64,
}

/// A leaf, as it was when it was read. Others may have been writing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The leaf.
    pub leaf: Address,
    /// The place of the key's entry and its value, if it is there.
    pub entry: Option<(usize, u64)>,
}

/// The result of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Of a read. Of an allocation: the nodes' offsets.
    Words(Vec<u64>),
    /// Of a write, of [`Call::Fence`], and of [`Call::GiveBack`].
    Written,
    /// Of an atomic operation: the word before.
    Word(u64),
    /// Of [`Call::Load`].
    Load(Load),
    /// Of [`Call::Find`]. `None`: the way there is not on this server alone, or changed meanwhile.
    Found(Option<Found>),
}

/// What a memory server says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Bytes that it has.
    pub capacity_bytes: u64,
    /// Bytes that it gave, without those it got back.
    pub allocated_bytes: u64,
}

impl Operation {
    /// The server that carries this out.
    pub fn server(&self) -> ServerId {
        match *self {
            Operation::Read(at, _)
            | Operation::Write(at, _)
            | Operation::CompareExchange { at, .. }
            | Operation::FetchAdd(at, _) => at.server(),
            Operation::WriteInOrder(ref writes) => writes.first().map_or(0, |(at, _)| at.server()),
            Operation::Call(server, _) => server,
        }
    }

    /// What it writes, and where, in this order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (Address, &[u64])> {
        let (one, several): (_, &[(Address, Vec<u64>)]) = match self {
            Operation::Write(at, words) => (Some((*at, &words[..])), &[]),
            Operation::WriteInOrder(writes) => (None, writes),
            _ => (None, &[]),
        };
        let several = several.iter().map(|(at, words)| (*at, &words[..]));
        one.into_iter().chain(several)
    }

    /// How many words it writes.
    pub(crate) fn written_words(&self) -> usize {
        self.writes().map(|(_, words)| words.len()).sum()
    }

    /// Bytes of data that go over the network, in both directions together, without headers.
    pub fn bytes(&self) -> usize {
        match self {
            Operation::Read(_, words) => 8 * words,
            Operation::Write(..) | Operation::WriteInOrder(_) => 8 * self.written_words(),
            Operation::CompareExchange { .. } => 24,
            Operation::FetchAdd(..) => 16,
            Operation::Call(_, Call::Find(_)) => 48,
            Operation::Call(..) => 32,
        }
    }
}
