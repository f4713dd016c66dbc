//! Operations and their replies as bytes on a connection.
//!
//! Everything is a sequence of little-endian words of 8 bytes. A request has three words before
//! its data, a reply two:
//!
//! | word | request | reply |
//! |---|---|---|
//! | 0 | kind, and a number of words above it | status, and a number of words above it |
//! | 1 | number of the request | number of the request |
//! | 2 | offset in the server's memory | – |
//!
//! Of writes in order, each has an offset and a number of words before its own.

use crate::address::{Address, ComputeId, ServerId};
use crate::error::{Error, Result};
use crate::fabric::{Call, Find, Found, Load, Operation, Reply};
use crate::image::ENTRIES;
use crate::pool::{CHUNK, NODES};

/// The most words of one request or reply: a chunk.
pub const MAX_WORDS: usize = CHUNK / 8;

/// Bytes before a request's data.
pub const REQUEST_HEAD: usize = 24;
/// Bytes before a reply's data.
pub const REPLY_HEAD: usize = 16;

const READ: u8 = 1;
const WRITE: u8 = 2;
const COMPARE_EXCHANGE: u8 = 3;
const FETCH_ADD: u8 = 4;
const ALLOCATE: u8 = 5;
const LOAD: u8 = 6;
const FENCE: u8 = 7;
const IS_FENCED: u8 = 8;
const FIND: u8 = 9;
const GIVE_BACK: u8 = 10;
const WRITE_IN_ORDER: u8 = 11;

const WORDS: u8 = 0;
const WRITTEN: u8 = 1;
const WORD: u8 = 2;
const LOADED: u8 = 3;
const OUT_OF_RANGE: u8 = 4;
const POOL_FULL: u8 = 5;
const FENCED: u8 = 6;
const FOUND: u8 = 7;
const NOT_FOUND: u8 = 8;

/// The sender does not keep to the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Words at the front of a buffer.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> u64 {
        let (word, rest) = self.0.split_first_chunk().expect("it was counted before");
        self.0 = rest;
        u64::from_le_bytes(*word)
    }

    fn take(&mut self, words: usize) -> Vec<u64> {
        let (taken, rest) = self.0.split_at(8 * words);
        self.0 = rest;
        let (taken, _) = taken.as_chunks();
        taken.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    let before = out.len();
    out.resize(before + 8 * words.len(), 0);
    // A copy at once where the processor has the same order of bytes.
    let (put, _) = out[before..].as_chunks_mut();
    for (bytes, word) in put.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

fn head(kind: u8, words: usize) -> u64 {
    u64::from(kind) | (words as u64) << 8
}

fn parts(head: u64) -> std::result::Result<(u8, usize), Malformed> {
    let words = (head >> 8) as usize;
    match words <= MAX_WORDS {
        true => Ok((head as u8, words)),
        false => Err(Malformed),
    }
}

/// Appends a request of this number. Its data has at most [`MAX_WORDS`] words.
pub fn put_request(out: &mut Vec<u8>, number: u64, operation: &Operation) {
    let in_order;
    let (kind, words, offset, data): (_, _, _, &[u64]) = match operation {
        Operation::Read(at, words) => (READ, *words, at.offset(), &[]),
        Operation::Write(at, words) => (WRITE, words.len(), at.offset(), words),
        Operation::WriteInOrder(writes) => {
            let each = writes.iter().map(|(at, words)| {
                let head = [at.offset(), words.len() as u64];
                head.into_iter().chain(words.iter().copied())
            });
            in_order = each.flatten().collect::<Vec<u64>>();
            (WRITE_IN_ORDER, in_order.len(), 0, &in_order)
        }
        Operation::CompareExchange { at, old, new } => {
            (COMPARE_EXCHANGE, 2, at.offset(), &[*old, *new])
        }
        Operation::FetchAdd(at, add) => (FETCH_ADD, 1, at.offset(), &[*add]),
        Operation::Call(_, Call::Allocate) => (ALLOCATE, 0, 0, &[]),
        Operation::Call(_, Call::GiveBack(node)) => (GIVE_BACK, 0, node.offset(), &[]),
        Operation::Call(_, Call::Load) => (LOAD, 0, 0, &[]),
        Operation::Call(_, Call::Fence(compute)) => (FENCE, 1, 0, &[compute.number()]),
        Operation::Call(_, Call::IsFenced(compute)) => (IS_FENCED, 1, 0, &[compute.number()]),
        Operation::Call(_, Call::Find(Find { from, height, key })) => {
            (FIND, 3, 0, &[from.word(), u64::from(*height), *key])
        }
    };
    put(out, &[head(kind, words), number, offset]);
    put(out, data);
}

/// The first request in a buffer: its bytes, number and operation; `None` if it is not whole.
pub fn request(
    bytes: &[u8],
    server: ServerId,
) -> std::result::Result<Option<(usize, u64, Operation)>, Malformed> {
    if bytes.len() < REQUEST_HEAD {
        return Ok(None);
    }
    let mut left = Words(bytes);
    let (kind, words) = parts(left.next())?;
    let (number, offset) = (left.next(), left.next());
    let data = match kind {
        READ => 0,
        WRITE | WRITE_IN_ORDER => words,
        COMPARE_EXCHANGE if words == 2 => words,
        FETCH_ADD | FENCE | IS_FENCED if words == 1 => words,
        ALLOCATE | GIVE_BACK | LOAD if words == 0 => words,
        FIND if words == 3 => words,
        _ => return Err(Malformed),
    };
    if left.0.len() < 8 * data {
        return Ok(None);
    }
    if offset >= 1 << 48 {
        return Err(Malformed);
    }
    let at = Address::new(server, offset);
    let compute = |number| match ComputeId::new(number) {
        Some(compute) if compute.number() == number => Ok(compute),
        _ => Err(Malformed),
    };
    let operation = match kind {
        READ => Operation::Read(at, words),
        WRITE => Operation::Write(at, left.take(words)),
        WRITE_IN_ORDER => Operation::WriteInOrder(writes_of(&left.take(words), server)?),
        COMPARE_EXCHANGE => Operation::CompareExchange {
            at,
            old: left.next(),
            new: left.next(),
        },
        FETCH_ADD => Operation::FetchAdd(at, left.next()),
        ALLOCATE => Operation::Call(server, Call::Allocate),
        GIVE_BACK => Operation::Call(server, Call::GiveBack(at)),
        FENCE => Operation::Call(server, Call::Fence(compute(left.next())?)),
        IS_FENCED => Operation::Call(server, Call::IsFenced(compute(left.next())?)),
        FIND => Operation::Call(
            server,
            Call::Find(Find {
                from: Address::of_word(left.next()),
                height: left.next().try_into().map_err(|_| Malformed)?,
                key: left.next(),
            }),
        ),
        _ => Operation::Call(server, Call::Load),
    };
    Ok(Some((REQUEST_HEAD + 8 * data, number, operation)))
}

/// Writes in order, of a request's data.
fn writes_of(
    mut data: &[u64],
    server: ServerId,
) -> std::result::Result<Vec<(Address, Vec<u64>)>, Malformed> {
    let mut writes = Vec::new();
    while let Some((&[offset, words], rest)) = data.split_first_chunk() {
        let words = usize::try_from(words).map_err(|_| Malformed)?;
        let (words, rest) = rest.split_at_checked(words).ok_or(Malformed)?;
        if offset >= 1 << 48 {
            return Err(Malformed);
        }
        writes.push((Address::new(server, offset), words.to_vec()));
        data = rest;
    }
    match data.is_empty() && !writes.is_empty() {
        true => Ok(writes),
        false => Err(Malformed),
    }
}

/// Appends the reply to the request of this number.
pub fn put_reply(out: &mut Vec<u8>, number: u64, result: &Result<Reply>) {
    let mut reply = |status, data: &[u64]| {
        put(out, &[head(status, data.len()), number]);
        put(out, data);
    };
    match result {
        Ok(Reply::Words(words)) => reply(WORDS, words),
        Ok(Reply::Written) => reply(WRITTEN, &[]),
        Ok(Reply::Word(word)) => reply(WORD, &[*word]),
        Ok(Reply::Load(load)) => reply(LOADED, &[load.capacity_bytes, load.allocated_bytes]),
        Ok(Reply::Found(None)) => reply(NOT_FOUND, &[]),
        Ok(Reply::Found(Some(Found { leaf, entry: None }))) => reply(FOUND, &[leaf.word()]),
        Ok(Reply::Found(Some(Found {
            leaf,
            entry: Some((index, value)),
        }))) => reply(FOUND, &[leaf.word(), *index as u64, *value]),
        Err(Error::PoolFull(_)) => reply(POOL_FULL, &[]),
        Err(Error::Fenced) => reply(FENCED, &[]),
        Err(Error::OutOfRange(at)) => reply(OUT_OF_RANGE, &[at.offset()]),
        Err(other) => unreachable!("a memory server does not say {other:?}"),
    }
}

/// A reply as it arrived: whether it is an answer to what was asked is not known yet.
#[derive(Debug, PartialEq, Eq)]
pub struct RawReply {
    /// Its bytes in the buffer.
    pub bytes: usize,
    /// The request's.
    pub number: u64,
    status: u8,
    data: Vec<u64>,
}

/// The first reply in a buffer, or `None` if it is not whole.
pub fn reply(bytes: &[u8]) -> std::result::Result<Option<RawReply>, Malformed> {
    if bytes.len() < REPLY_HEAD {
        return Ok(None);
    }
    let mut left = Words(bytes);
    let (status, words) = parts(left.next())?;
    let number = left.next();
    if left.0.len() < 8 * words {
        return Ok(None);
    }
    Ok(Some(RawReply {
        bytes: REPLY_HEAD + 8 * words,
        number,
        status,
        data: left.take(words),
    }))
}

impl RawReply {
    /// What a server says with it about a request of this form.
    pub fn result(
        self,
        asked: Asked,
        server: ServerId,
    ) -> std::result::Result<Result<Reply>, Malformed> {
        let RawReply { status, data, .. } = self;
        Ok(match (status, asked, &data[..]) {
            (WORDS, Asked::Words(words), _) if data.len() == words => Ok(Reply::Words(data)),
            (WORDS, Asked::Nodes, nodes) if are_nodes(nodes) => Ok(Reply::Words(data)),
            (WRITTEN, Asked::Written, []) => Ok(Reply::Written),
            (WORD, Asked::Word, &[word]) => Ok(Reply::Word(word)),
            (LOADED, Asked::Load, &[capacity_bytes, allocated_bytes]) => Ok(Reply::Load(Load {
                capacity_bytes,
                allocated_bytes,
            })),
            (NOT_FOUND, Asked::Leaf, []) => Ok(Reply::Found(None)),
            (FOUND, Asked::Leaf, &[leaf, ref entry @ ..]) => {
                let entry = match *entry {
                    [] => None,
                    [index, value] if index < ENTRIES as u64 => Some((index as usize, value)),
                    _ => return Err(Malformed),
                };
                let leaf = Address::of_word(leaf);
                Ok(Reply::Found(Some(Found { leaf, entry })))
            }
            (POOL_FULL, _, []) => Err(Error::PoolFull(server)),
            (FENCED, _, []) => Err(Error::Fenced),
            (OUT_OF_RANGE, _, &[offset]) if offset < 1 << 48 => {
                Err(Error::OutOfRange(Address::new(server, offset)))
            }
            _ => return Err(Malformed),
        })
    }
}

/// Whether these are offsets of nodes that a server hands out.
fn are_nodes(offsets: &[u64]) -> bool {
    (1..=NODES).contains(&offsets.len()) && offsets.iter().all(|offset| offset >> 48 == 0)
}

/// The form of the reply that an operation expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// So many words.
    Words(usize),
    /// Offsets of nodes.
    Nodes,
    /// That they were written.
    Written,
    /// One word.
    Word,
    /// The server's load.
    Load,
    /// A leaf.
    Leaf,
}

impl Asked {
    /// By an operation.
    pub fn by(operation: &Operation) -> Asked {
        match operation {
            Operation::Read(_, words) => Asked::Words(*words),
            Operation::Call(_, Call::Allocate) => Asked::Nodes,
            Operation::Write(..)
            | Operation::WriteInOrder(_)
            | Operation::Call(_, Call::Fence(_) | Call::GiveBack(_)) => Asked::Written,
            Operation::Call(_, Call::Load) => Asked::Load,
            Operation::Call(_, Call::Find(_)) => Asked::Leaf,
            Operation::CompareExchange { .. }
            | Operation::FetchAdd(..)
            | Operation::Call(_, Call::IsFenced(_)) => Asked::Word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations() -> Vec<Operation> {
        let at = Address::new(3, 0x1_0008);
        let compute = ComputeId::new(u64::MAX).unwrap();
        vec![
            Operation::Read(at, 128),
            Operation::Write(at, vec![1, u64::MAX, 3]),
            Operation::WriteInOrder(vec![(at, vec![4, 5]), (at.add(64), vec![0])]),
            Operation::CompareExchange {
                at,
                old: 5,
                new: 1 << 63,
            },
            Operation::FetchAdd(at, u64::MAX),
            Operation::Call(3, Call::Allocate),
            Operation::Call(3, Call::GiveBack(at)),
            Operation::Call(3, Call::Load),
            Operation::Call(3, Call::Fence(compute)),
            Operation::Call(3, Call::IsFenced(compute)),
            Operation::Call(
                3,
                Call::Find(Find {
                    from: at,
                    height: 2,
                    key: u64::MAX,
                }),
            ),
        ]
    }

    #[test]
    fn requests_arrive_as_they_were_sent_in_any_pieces() {
        let mut bytes = Vec::new();
        for (number, operation) in operations().iter().enumerate() {
            put_request(&mut bytes, number as u64, operation);
        }
        let mut rest = &bytes[..];
        for (number, operation) in operations().into_iter().enumerate() {
            let (length, _, _) = request(rest, 3).unwrap().unwrap();
            for short in 0..length {
                assert_eq!(request(&rest[..short], 3), Ok(None));
            }
            let expected = Some((length, number as u64, operation));
            assert_eq!(request(rest, 3), Ok(expected));
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn replies_arrive_as_they_were_sent() {
        let at = Address::new(3, 64);
        let load = Load {
            capacity_bytes: 1 << 40,
            allocated_bytes: 7,
        };
        let found = |entry| Ok(Reply::Found(Some(Found { leaf: at, entry })));
        for (result, asked) in [
            (Ok(Reply::Found(None)), Asked::Leaf),
            (found(None), Asked::Leaf),
            (found(Some((5, u64::MAX))), Asked::Leaf),
            (Ok(Reply::Words(vec![4, 5])), Asked::Words(2)),
            (Ok(Reply::Words(vec![])), Asked::Words(0)),
            (Ok(Reply::Words(vec![1 << 20])), Asked::Nodes),
            (Ok(Reply::Written), Asked::Written),
            (Ok(Reply::Word(9)), Asked::Word),
            (Ok(Reply::Load(load)), Asked::Load),
            (Err(Error::PoolFull(3)), Asked::Word),
            (Err(Error::Fenced), Asked::Load),
            (Err(Error::OutOfRange(at)), Asked::Written),
        ] {
            let mut bytes = Vec::new();
            put_reply(&mut bytes, 77, &result);
            for short in 0..bytes.len() {
                assert_eq!(reply(&bytes[..short]), Ok(None));
            }
            let raw = reply(&bytes).unwrap().unwrap();
            assert_eq!((raw.bytes, raw.number), (bytes.len(), 77));
            assert_eq!(raw.result(asked, 3), Ok(result));
        }
    }

    #[test]
    fn what_nobody_sends_is_malformed() {
        let words = |words: &[u64]| {
            let mut bytes = Vec::new();
            put(&mut bytes, words);
            bytes
        };
        for request_of in [
            [0, 0, 0],
            [99, 0, 0],
            [head(READ, MAX_WORDS + 1), 0, 0],
            [head(COMPARE_EXCHANGE, 1), 0, 0],
            [head(LOAD, 1), 0, 0],
            [head(READ, 1), 0, 1 << 48],
            [head(FENCE, 0), 0, 0],
            [head(FIND, 2), 0, 0],
        ] {
            assert_eq!(request(&words(&request_of), 0), Err(Malformed));
        }
        for data in [&[][..], &[8], &[8, 2, 1], &[1 << 48, 1, 1], &[8, u64::MAX]] {
            let head = head(WRITE_IN_ORDER, data.len());
            let writes = words(&[&[head, 0, 0], data].concat());
            assert_eq!(request(&writes, 0), Err(Malformed), "{data:?}");
        }
        for compute in [0, 1 << ComputeId::BITS] {
            let fence = words(&[head(FENCE, 1), 0, 0, compute]);
            assert_eq!(request(&fence, 0), Err(Malformed));
        }
        for data in [vec![], vec![1 << 48], vec![0; NODES + 1]] {
            let nodes = RawReply {
                bytes: 0,
                number: 1,
                status: WORDS,
                data,
            };
            assert_eq!(nodes.result(Asked::Nodes, 0), Err(Malformed));
        }
        let answer = |head, data: &[u64]| {
            let bytes = words(&[&[head, 1], data].concat());
            reply(&bytes).map(|it| it.map(|raw| raw.result(Asked::Words(2), 0)))
        };
        assert_eq!(answer(head(WORDS, MAX_WORDS + 1), &[]), Err(Malformed));
        for (status, data) in [
            (WORDS, &[1][..]),
            (WRITTEN, &[]),
            (NOT_FOUND, &[]),
            (77, &[]),
        ] {
            let head = head(status, data.len());
            assert_eq!(answer(head, data), Ok(Some(Err(Malformed))));
        }
    }
}
