//! Keys of records by id, in the form that a map takes.
//!
//! Requests come as ids from `timberline_bench::workload`: `0..records` is loaded, inserts follow
//! from `records` on. The key of an id depends on its kind:
//!
//! - `random`: 64 pseudo-random bits; a bijection of the id, so all keys differ.
//! - `dense`: the id.
//! - `uuid4`, `uuid7`: the text of a UUID (RFC 9562), 36 bytes. A v7 is made every 10 µs, its
//!   sub-millisecond part in `rand_a`, so keys are in the order of their ids.
//! - `urls`, `words`: a line of the file; after the last line, each line with `#1` appended, then
//!   `#2`, … Without a file, made up.
//!
//! Invariant: different ids have different keys, for any number of ids (UUIDs: up to 2⁴⁸).

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use timberline_bench::workload::Lines;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Pseudo-random 64-bit words.
    Random,
    Dense,
    Uuid4,
    Uuid7,
    Urls,
    Words,
}

impl Kind {
    /// Its name in `--rows` and in the report.
    pub fn name(self) -> String {
        self.to_possible_value()
            .expect("none is hidden")
            .get_name()
            .into()
    }

    /// Whether its keys are 64-bit words.
    pub fn is_word(self) -> bool {
        matches!(self, Kind::Random | Kind::Dense)
    }
}

/// Keys of one type, and blocks of them that a request thread prepares outside the timed part.
pub trait Keys: Send + Sync + 'static {
    /// The key type of the maps.
    type Key: ?Sized;
    /// A block of keys, stored contiguously.
    type Block: Block<Self::Key>;

    /// Appends the key of `id` to `block`.
    fn push(&self, block: &mut Self::Block, id: u64);

    /// The longest key, bytes.
    fn longest(&self) -> usize;

    /// A key as bytes with the same order.
    fn bytes(key: &Self::Key) -> Vec<u8>;
}

/// A block of prepared keys.
pub trait Block<K: ?Sized>: Default + Send {
    fn clear(&mut self);
    fn key(&self, at: usize) -> &K;
}

/// A bijection of 64 bits: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub fn scatter(id: u64) -> u64 {
    let x = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub struct Words {
    /// Whether the key is the id.
    pub dense: bool,
}

impl Keys for Words {
    type Key = u64;
    type Block = Vec<u64>;

    #[inline]
    fn push(&self, block: &mut Vec<u64>, id: u64) {
        block.push(if self.dense { id } else { scatter(id) });
    }

    fn longest(&self) -> usize {
        8
    }

    fn bytes(key: &u64) -> Vec<u8> {
        key.to_be_bytes().to_vec()
    }
}

impl Block<u64> for Vec<u64> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    #[inline]
    fn key(&self, at: usize) -> &u64 {
        &self[at]
    }
}

/// Keys that are byte strings: text without a zero byte.
pub struct Strings {
    kind: Kind,
    lines: Option<Lines>,
}

impl Strings {
    /// The keys of a kind: lines of `file` if there is one.
    ///
    /// # Errors
    /// One line that names the file: it is unreadable, or has no usable line.
    pub fn of(kind: Kind, file: Option<&PathBuf>) -> Result<Strings, String> {
        let lines = file.map(|file| Lines::read(file)).transpose()?;
        Ok(Strings { kind, lines })
    }
}

impl Keys for Strings {
    type Key = [u8];
    type Block = Packed;

    #[inline]
    fn push(&self, block: &mut Packed, id: u64) {
        let text = &mut block.bytes;
        match (&self.lines, self.kind) {
            (Some(lines), _) => lines.push_key(id, text),
            (None, Kind::Uuid4) => push_uuid(text, 4, scatter(id), scatter(!id)),
            (None, Kind::Uuid7) => {
                let (millis, nth) = (1_700_000_000_000 + id / 100, id % 100);
                push_uuid(text, 7, (millis << 16) | (nth * 40), scatter(id));
            }
            (None, Kind::Urls) => push_url(text, id),
            (None, _) => push_word(text, scatter(id)),
        }
        block.ends.push(block.bytes.len());
    }

    fn longest(&self) -> usize {
        self.lines.as_ref().map_or(128, Lines::longest_key)
    }

    fn bytes(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

/// Appends the text of a UUID of these bits, with its version and variant set.
fn push_uuid(text: &mut Vec<u8>, version: u64, high: u64, low: u64) {
    let high = high & !0xf000 | version << 12;
    let low = low & !(3 << 62) | 2 << 62;
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (fourth, fifth) = (low >> 48, low & ((1 << 48) - 1));
    let written = write!(
        text,
        "{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{fifth:012x}"
    );
    written.expect("a vector takes what is written");
}

/// Appends the number as syllables, the last first: a bijection.
fn push_word(text: &mut Vec<u8>, mut number: u64) {
    const CONSONANTS: &[u8; 16] = b"bcdfghklmnprstvz";
    const VOWELS: &[u8; 4] = b"aeio";
    loop {
        text.push(CONSONANTS[(number & 15) as usize]);
        text.push(VOWELS[(number >> 4 & 3) as usize]);
        number >>= 6;
        if number == 0 {
            return;
        }
    }
}

/// Appends a URL: a few big hosts and many small ones, a section, a page. The number at the end
/// tells ids apart.
fn push_url(text: &mut Vec<u8>, id: u64) {
    let bits = scatter(id);
    // Half of the pages on 16 hosts, the others on 4,096.
    let host = if bits & 1 == 0 {
        bits >> 1 & 15
    } else {
        bits >> 1 & 4095
    };
    text.extend_from_slice(b"https://www.");
    push_word(text, 1000 + host);
    text.extend_from_slice([b".com/", b".org/", b".net/", b".de/x"][(host & 3) as usize]);
    push_word(text, 64 + (bits >> 13 & 63));
    text.push(b'/');
    push_word(text, bits >> 19 & 0xff_ffff);
    write!(text, "/{id}.html").expect("a vector takes what is written");
}

/// Byte strings, stored contiguously.
#[derive(Default)]
pub struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Block<[u8]> for Packed {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    #[inline]
    fn key(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[from..self.ends[at]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn made_up(kind: Kind) -> Strings {
        Strings { kind, lines: None }
    }

    fn lines(text: &[u8]) -> Strings {
        let lines = Some(Lines::of(text));
        let kind = Kind::Urls;
        Strings { kind, lines }
    }

    fn keys_of<T: Keys>(keys: &T, count: u64) -> Vec<Vec<u8>> {
        let mut block = T::Block::default();
        let key = |id| {
            block.clear();
            keys.push(&mut block, id);
            T::bytes(block.key(0))
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn no_two_ids_have_the_same_key() {
        let kinds = [Kind::Uuid4, Kind::Uuid7, Kind::Urls, Kind::Words];
        let mut strings: Vec<_> = kinds.map(made_up).into();
        strings.push(lines(b"a\nb\na1\na#\n"));
        let mut all: Vec<_> = [true, false]
            .map(|dense| keys_of(&Words { dense }, 10_000))
            .into();
        for keys in &strings {
            all.push(keys_of(keys, 10_000));
            let fits = |key: &Vec<u8>| key.len() <= keys.longest() && !key.contains(&0);
            assert!(all.last().unwrap().iter().all(fits));
        }
        for keys in all {
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 10_000);
        }
    }

    #[test]
    fn uuids_have_their_version_and_v7_their_order() {
        let shown = |kind| String::from_utf8(keys_of(&made_up(kind), 250).pop().unwrap()).unwrap();
        let (random, timed) = (shown(Kind::Uuid4), shown(Kind::Uuid7));
        for (uuid, version) in [(&random, b'4'), (&timed, b'7')] {
            assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, version), "{uuid}");
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
        assert!(timed.starts_with("018bcfe5-6802-77a8-"), "{timed}");
        assert!(keys_of(&made_up(Kind::Uuid7), 1000).is_sorted());
        assert!(!keys_of(&made_up(Kind::Uuid4), 1000).is_sorted());
    }

    #[test]
    fn random_keys_use_all_bits() {
        let keys = || (0..10_000).map(scatter);
        assert_eq!(keys().fold(0, |bits, key| bits | key), !0);
        assert_eq!(keys().fold(!0, |bits, key| bits & key), 0);
    }

    #[test]
    fn a_block_holds_keys_of_any_length() {
        let lines = lines(b"a\nlonger\n");
        let mut block = Packed::default();
        (0..4).for_each(|id| lines.push(&mut block, id));
        let keys: Vec<_> = (0..4).map(|at| block.key(at)).collect();
        let expected: [&[u8]; 4] = [b"a", b"longer", b"a#1", b"longer#1"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let error = |path: &str| Strings::of(Kind::Urls, Some(&path.into())).err().unwrap();
        let named = "can't read the keys in /nonexistent/urls.txt: ";
        assert!(error("/nonexistent/urls.txt").starts_with(named));
        assert_eq!(error("/dev/null"), "/dev/null has no line usable as a key");
    }
}
