//! What a writer's commands do to the keys that it has alone, and what the server has to answer.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use fastrand::Rng;

use crate::client::{Client, Reply, encoded};

/// Keys of one kind that a writer has.
const KEYS: u8 = 6;
/// Fields of a hash, members of a sorted set.
const FIELDS: u8 = 20;
/// The longest value that is set often, in bytes, and one in several pieces.
const LONG: u32 = 3_000;
const HUGE: u32 = 200_000;

/// What the keys of a writer are: the letter in their names tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Text,
    /// Two texts that are always set together.
    Pair,
    Number,
    Hash,
    /// A queue of ascending numbers.
    List,
    Sorted,
}

/// A key of a writer: its kind and number; of a pair, which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(Kind, u8, bool);

/// A command that changes keys, or a GET. The number in it makes its values unlike all others.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Set(Key, u64, u32),
    /// MSET of both keys of a pair.
    SetPair(u8, u64, u32),
    Get(Key),
    Delete(Key),
    Increment(Key),
    /// INCR of the counter that all writers share.
    IncrementShared,
    /// HSET of this field and the next one.
    SetFields(Key, u8, u64),
    RemoveField(Key, u8),
    Push(Key, u64),
    Pop(Key),
    Add(Key, u8, u64),
}

/// What a key has.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    List(VecDeque<Vec<u8>>),
    /// Members with their scores.
    Sorted(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// All that a writer's keys have.
pub type Model = BTreeMap<Key, Value>;

pub const SHARED: &str = "shared";

impl Key {
    /// All keys of a writer.
    pub fn all() -> impl Iterator<Item = Key> {
        let kinds = [
            Kind::Text,
            Kind::Pair,
            Kind::Number,
            Kind::Hash,
            Kind::List,
            Kind::Sorted,
        ];
        kinds.into_iter().flat_map(|kind| {
            let of_kind = (0..KEYS).map(move |number| Key(kind, number, false));
            let second = (0..KEYS).map(move |number| Key(kind, number, true));
            of_kind.chain(second.filter(move |_| kind == Kind::Pair))
        })
    }

    pub fn name(self, writer: usize) -> String {
        let Key(kind, number, second) = self;
        format!("{writer}:{kind:?}:{number}:{}", u8::from(second))
    }

    fn draw(rng: &mut Rng, kind: Kind) -> Key {
        Key(kind, rng.u8(0..KEYS), kind == Kind::Pair && rng.bool())
    }

    /// The command that reads all of it.
    fn read(self) -> &'static [&'static str] {
        match self.0 {
            Kind::Text | Kind::Pair | Kind::Number => &["GET"],
            Kind::Hash => &["HGETALL"],
            Kind::List => &["LRANGE", "0", "-1"],
            Kind::Sorted => &["ZRANGE", "0", "-1", "WITHSCORES"],
        }
    }

    /// What the server has there.
    pub fn look(self, client: &mut Client, writer: usize) -> Option<Value> {
        let (name, read) = (self.name(writer), self.read());
        let args = [&[read[0], name.as_str()], &read[1..]].concat();
        let reply = client.ask(&args).expect("the server is there");
        let parts = match reply {
            Reply::Bulk(text) => return text.map(Value::Text),
            Reply::Array(parts) if parts.is_empty() => return None,
            Reply::Array(parts) => parts,
            other => panic!("{name}: {other:?}"),
        };
        let mut parts = parts.into_iter().map(|it| match it {
            Reply::Bulk(Some(bytes)) => bytes,
            other => panic!("{name}: {other:?}"),
        });
        if self.0 == Kind::List {
            return Some(Value::List(parts.collect()));
        }
        let mut pairs = BTreeMap::new();
        while let (Some(field), Some(value)) = (parts.next(), parts.next()) {
            assert!(pairs.insert(field, value).is_none(), "{name} has one twice");
        }
        Some(match self.0 {
            Kind::Hash => Value::Hash(pairs),
            _ => Value::Sorted(pairs),
        })
    }
}

/// A text that no other command sets: a part of another one in it would be seen.
fn text(number: u64, bytes: u32) -> Vec<u8> {
    let word = format!("{number}.").into_bytes();
    word.into_iter().cycle().take(bytes as usize).collect()
}

impl Op {
    pub fn draw(rng: &mut Rng, number: u64) -> Op {
        let bytes = match rng.u16(0..400) {
            0 => HUGE,
            1..100 => LONG,
            _ => 100,
        };
        let bytes = rng.u32(12..bytes);
        let field = rng.u8(0..FIELDS);
        match rng.u8(0..32) {
            0..8 => Op::Set(Key::draw(rng, Kind::Text), number, bytes),
            8..11 => Op::SetPair(rng.u8(0..KEYS), number, bytes.min(LONG)),
            11..14 => Op::Increment(Key::draw(rng, Kind::Number)),
            14 => Op::IncrementShared,
            15..19 => Op::SetFields(Key::draw(rng, Kind::Hash), field, number),
            19 => Op::RemoveField(Key::draw(rng, Kind::Hash), field),
            20..23 => Op::Push(Key::draw(rng, Kind::List), number),
            23..25 => Op::Pop(Key::draw(rng, Kind::List)),
            25..28 => Op::Add(Key::draw(rng, Kind::Sorted), field, number),
            28 | 29 => {
                let kinds = [Kind::Text, Kind::Pair, Kind::Number];
                let kind = *rng.choice(&kinds).expect("there are some");
                Op::Get(Key::draw(rng, kind))
            }
            _ => {
                let kinds = [Kind::Text, Kind::Number, Kind::Hash, Kind::List];
                let kind = *rng.choice(&kinds).expect("there are some");
                Op::Delete(Key::draw(rng, kind))
            }
        }
    }

    /// As bytes that are sent.
    pub fn encode(&self, writer: usize) -> Vec<u8> {
        let args: Vec<Vec<u8>> = match *self {
            Op::Set(_, number, bytes) => vec![b"SET".into(), vec![], text(number, bytes)],
            Op::SetPair(pair, number, bytes) => {
                let [first, second] = pair_of(pair).map(|it| it.name(writer).into_bytes());
                let value = text(number, bytes);
                vec![b"MSET".into(), first, value.clone(), second, value]
            }
            Op::Get(_) => vec![b"GET".into(), vec![]],
            Op::Delete(_) => vec![b"DEL".into(), vec![]],
            Op::Increment(_) => vec![b"INCR".into(), vec![]],
            Op::IncrementShared => vec![b"INCR".into(), SHARED.into()],
            Op::SetFields(_, field, number) => {
                let [first, second] = fields(field);
                let value = text(number, 20);
                let command = b"HSET".to_vec();
                vec![command, vec![], first, value.clone(), second, value]
            }
            Op::RemoveField(_, field) => vec![b"HDEL".into(), vec![], name_of(field)],
            Op::Push(_, number) => vec![b"RPUSH".into(), vec![], text(number, 20)],
            Op::Pop(_) => vec![b"LPOP".into(), vec![]],
            Op::Add(_, member, number) => {
                let score = number.to_string().into_bytes();
                vec![b"ZADD".into(), vec![], score, name_of(member)]
            }
        };
        let name = self.key().map(|it| it.name(writer).into_bytes());
        let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        if let Some(name) = &name {
            args[1] = name;
        }
        encoded(&args)
    }

    /// The one key that it is about, of those that its writer has alone.
    fn key(&self) -> Option<Key> {
        match *self {
            Op::Set(key, ..)
            | Op::Get(key)
            | Op::Delete(key)
            | Op::Increment(key)
            | Op::SetFields(key, ..)
            | Op::RemoveField(key, _)
            | Op::Push(key, _)
            | Op::Pop(key)
            | Op::Add(key, ..) => Some(key),
            Op::SetPair(..) | Op::IncrementShared => None,
        }
    }

    /// The keys that it may change.
    pub fn keys(&self) -> Vec<Key> {
        match *self {
            Op::SetPair(pair, ..) => pair_of(pair).to_vec(),
            _ => self.key().into_iter().collect(),
        }
    }

    /// Does it, and says what the reply is; `None` where others have a say in it.
    pub fn apply(&self, model: &mut Model) -> Option<Reply> {
        let ok = Reply::Simple("OK".into());
        Some(match *self {
            Op::Set(key, number, bytes) => {
                model.insert(key, Value::Text(text(number, bytes)));
                ok
            }
            Op::SetPair(pair, number, bytes) => {
                for key in pair_of(pair) {
                    model.insert(key, Value::Text(text(number, bytes)));
                }
                ok
            }
            Op::Get(key) => match model.get(&key) {
                Some(Value::Text(text)) => Reply::Bulk(Some(text.clone())),
                _ => Reply::Bulk(None),
            },
            Op::Delete(key) => Reply::Integer(i64::from(model.remove(&key).is_some())),
            Op::Increment(key) => {
                let number = match model.get(&key) {
                    Some(Value::Text(text)) => number(text) + 1,
                    _ => 1,
                };
                model.insert(key, Value::Text(number.to_string().into()));
                Reply::Integer(number)
            }
            Op::IncrementShared => return None,
            Op::SetFields(key, field, number) => {
                let pairs = pairs(model, key);
                let added = fields(field).map(|it| pairs.insert(it, text(number, 20)).is_none());
                Reply::Integer(added.into_iter().filter(|it| *it).count() as i64)
            }
            Op::RemoveField(key, field) => {
                let pairs = pairs(model, key);
                let was_there = pairs.remove(&name_of(field)).is_some();
                if pairs.is_empty() {
                    model.remove(&key);
                }
                Reply::Integer(i64::from(was_there))
            }
            Op::Push(key, number) => {
                let queue = queue(model, key);
                queue.push_back(text(number, 20));
                Reply::Integer(queue.len() as i64)
            }
            Op::Pop(key) => {
                let queue = queue(model, key);
                let first = queue.pop_front();
                if queue.is_empty() {
                    model.remove(&key);
                }
                Reply::Bulk(first)
            }
            Op::Add(key, member, number) => {
                let score = number.to_string().into_bytes();
                let before = pairs(model, key).insert(name_of(member), score);
                Reply::Integer(i64::from(before.is_none()))
            }
        })
    }
}

fn pair_of(pair: u8) -> [Key; 2] {
    [false, true].map(|second| Key(Kind::Pair, pair, second))
}

/// A field of a hash, or a member of a sorted set.
fn name_of(field: u8) -> Vec<u8> {
    format!("field{field}").into_bytes()
}

fn fields(field: u8) -> [Vec<u8>; 2] {
    [field, (field + 1) % FIELDS].map(name_of)
}

/// The number that a text is.
pub fn number(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text).expect("it is a number");
    text.parse().expect("it is a number")
}

fn pairs(model: &mut Model, key: Key) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
    let empty = match key.0 {
        Kind::Hash => Value::Hash(BTreeMap::new()),
        _ => Value::Sorted(BTreeMap::new()),
    };
    match model.entry(key).or_insert(empty) {
        Value::Hash(pairs) | Value::Sorted(pairs) => pairs,
        other => panic!("{key:?} has {other}"),
    }
}

fn queue(model: &mut Model, key: Key) -> &mut VecDeque<Vec<u8>> {
    let empty = Value::List(VecDeque::new());
    match model.entry(key).or_insert(empty) {
        Value::List(queue) => queue,
        other => panic!("{key:?} has {other}"),
    }
}

/// The beginning of texts: each begins with the number of the command that set it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |it: &[u8]| {
            let start = it[..it.len().min(24)].escape_ascii();
            format!("{start} ({} bytes)", it.len())
        };
        match self {
            Value::Text(bytes) => f.write_str(&text(bytes)),
            Value::List(queue) => {
                let texts: Vec<_> = queue.iter().map(|it| text(it)).collect();
                write!(f, "{texts:?}")
            }
            Value::Hash(pairs) | Value::Sorted(pairs) => {
                let pairs = pairs.iter();
                let texts: Vec<_> = pairs.map(|it| (text(it.0), text(it.1))).collect();
                write!(f, "{texts:?}")
            }
        }
    }
}
