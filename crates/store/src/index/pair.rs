//! Two maps as one index: keys of eight bytes are words in one, all others strings in the other.
//!
//! Words of the same length sort as their numbers do. A node of words has no strings to look at, so
//! a lookup takes a third of the time, and a key four bytes less.

use std::ops::Bound;

use smallvec::SmallVec;
use timberline_tier::Memory;
use timberline_tree::{BTree, Held};

use super::merged::Merged;
use super::{Entries, Found, GROUP, Index, Lookup, Spot};
use crate::Error;

/// Bytes of the keys that are words.
const WORD: usize = size_of::<u64>();

fn word_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// The same as an entry of strings.
fn as_string((key, word): (u64, u64)) -> (Vec<u8>, u64) {
    (key.to_be_bytes().to_vec(), word)
}

/// The first bytes of a key, and zeros if it is shorter, as a word.
fn first_of(key: &[u8]) -> u64 {
    let mut bytes = [0; WORD];
    let len = key.len().min(WORD);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// Where words begin that are above a bound of keys.
fn low_word(low: Bound<&[u8]>) -> Bound<u64> {
    match low {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) if key.len() <= WORD => Bound::Included(first_of(key)),
        Bound::Excluded(key) if key.len() < WORD => Bound::Included(first_of(key)),
        // A word is below all longer keys that begin with it.
        Bound::Included(key) | Bound::Excluded(key) => Bound::Excluded(first_of(key)),
    }
}

/// Where words end that are below a bound of keys.
fn high_word(high: Bound<&[u8]>) -> Bound<u64> {
    match high {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) if key.len() >= WORD => Bound::Included(first_of(key)),
        Bound::Excluded(key) if key.len() > WORD => Bound::Included(first_of(key)),
        Bound::Included(key) | Bound::Excluded(key) => Bound::Excluded(first_of(key)),
    }
}

/// Of the words, and of the strings.
type Pair<M> = (BTree<u64, u64, M>, BTree<[u8], u64, M>);

/// Calls `of_words` with those keys that are words, `of_strings` with the others, and puts what
/// they find where it belongs.
fn split<T: Copy>(
    keys: &[&[u8]],
    found: &mut [T],
    of_words: impl FnOnce(&[u64], &mut [T]),
    of_strings: impl FnOnce(&[&[u8]], &mut [T]),
) {
    let words: SmallVec<[u64; GROUP]> = keys.iter().filter_map(|key| word_of(key)).collect();
    if words.is_empty() {
        return of_strings(keys, found);
    }
    if words.len() == keys.len() {
        return of_words(&words, found);
    }
    let strings = keys.iter().copied().filter(|key| word_of(key).is_none());
    let strings: SmallVec<[&[u8]; GROUP]> = strings.collect();
    let mut in_words: SmallVec<[T; GROUP]> = SmallVec::from_slice(&found[..words.len()]);
    let mut in_strings: SmallVec<[T; GROUP]> = SmallVec::from_slice(&found[..strings.len()]);
    of_words(&words, &mut in_words);
    of_strings(&strings, &mut in_strings);
    let (mut in_words, mut in_strings) = (in_words.into_iter(), in_strings.into_iter());
    for (key, found) in keys.iter().zip(found) {
        let next = match word_of(key) {
            Some(_) => in_words.next(),
            None => in_strings.next(),
        };
        *found = next.expect("each key is one of both");
    }
}

impl<M: Memory> Index for Pair<M> {
    fn get(&self, key: &[u8]) -> Option<u64> {
        match word_of(key) {
            Some(word) => self.0.get(&word),
            None => self.1.get(key),
        }
    }

    fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a> {
        match word_of(key) {
            Some(word) => Box::pin(async move { self.0.get_async(&word).await }),
            None => Box::pin(self.1.get_async(key)),
        }
    }

    fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]) {
        let of_words = |keys: &[u64], words: &mut [_]| self.0.get_many(keys, words);
        let of_strings = |keys: &[&[u8]], words: &mut [_]| self.1.get_many(keys, words);
        split(keys, words, of_words, of_strings);
    }

    /// Words are found anew at each use: that takes as long as a look at their place would.
    fn hold(&self) -> Held<'_> {
        self.1.hold()
    }

    fn find_many<'h>(&'h self, held: &'h Held<'_>, keys: &[&[u8]], found: &mut [Found<'h>]) {
        let of_words = |keys: &[u64], found: &mut [Found<'h>]| {
            let mut words: SmallVec<[_; GROUP]> = SmallVec::from_elem(None, keys.len());
            self.0.get_many(keys, &mut words);
            for (found, word) in found.iter_mut().zip(words) {
                *found = word.map(|word| (word, None));
            }
        };
        let of_strings =
            |keys: &[&[u8]], found: &mut [Found<'h>]| Index::find_many(&self.1, held, keys, found);
        split(keys, found, of_words, of_strings);
    }

    fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64> {
        Index::get_at(&self.1, spot, key)
    }

    fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64> {
        Index::update_at(&self.1, spot, key, word)
    }

    fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error> {
        match word_of(key) {
            Some(key) => {
                let inserted = self.0.insert(&key, word);
                inserted.map_err(|error| Error::map("the index", error))
            }
            None => Index::insert(&self.1, key, word),
        }
    }

    fn load(&self, sorted: &mut dyn Iterator<Item = (&[u8], u64)>) -> Result<(), Error> {
        let mut words = Vec::new();
        let mut strings = sorted.filter(|(key, word)| match word_of(key) {
            Some(key) => {
                words.push((key, *word));
                false
            }
            None => true,
        });
        Index::load(&self.1, &mut strings)?;
        let loaded = self.0.bulk_load(words);
        loaded.map_err(|error| Error::map("the index", error))?;
        Ok(())
    }

    fn update(&self, key: &[u8], word: u64) -> Option<u64> {
        match word_of(key) {
            Some(key) => self.0.update(&key, word),
            None => self.1.update(key, word),
        }
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        match word_of(key) {
            Some(key) => self.0.remove(&key),
            None => self.1.remove(key),
        }
    }

    fn remove_if(&self, key: &[u8], word: u64) {
        match word_of(key) {
            Some(key) => {
                self.0.remove_if(&key, |present| present == word);
            }
            None => Index::remove_if(&self.1, key, word),
        }
    }

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries {
        let words = self.0.range((low_word(low), high_word(high)));
        Box::new(Merged::new(words.map(as_string), self.1.range((low, high))))
    }

    fn prefix(&self, prefix: &[u8]) -> Entries {
        if prefix.len() > WORD {
            return Index::prefix(&self.1, prefix);
        }
        let first = first_of(prefix);
        // The bits behind the prefix.
        let rest = u64::MAX.checked_shr(8 * prefix.len() as u32).unwrap_or(0);
        let words = self.0.range(first..=first | rest);
        Box::new(Merged::new(words.map(as_string), self.1.prefix(prefix)))
    }

    fn len(&self) -> usize {
        self.0.len() + self.1.len()
    }

    fn bytes(&self) -> u64 {
        let (fast, slow) = self.0.committed();
        (fast + slow) as u64 + Index::bytes(&self.1)
    }

    fn is_tiered(&self) -> bool {
        self.0.is_tiered() || self.1.is_tiered()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pair() -> Box<dyn Index> {
        super::super::IndexMemory::plain(super::super::IndexMap::BTree)
            .make()
            .expect("there is memory")
    }

    /// Keys of few different bytes, so that many begin with others, of 0 to 10 bytes.
    fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
        let len = match rng.u8(..3) {
            0 => WORD,
            _ => rng.usize(..=10),
        };
        (0..len).map(|_| [0, 1, 255][rng.usize(..3)]).collect()
    }

    fn bound(rng: &mut fastrand::Rng) -> Bound<Vec<u8>> {
        match rng.u8(..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key(rng)),
            _ => Bound::Excluded(key(rng)),
        }
    }

    fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        bound.as_ref().map(Vec::as_slice)
    }

    /// Takes entries from both ends, at random.
    fn taken(mut entries: Entries, rng: &mut fastrand::Rng) -> Vec<(Vec<u8>, u64)> {
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            let (next, end) = match rng.bool() {
                true => (entries.next(), &mut front),
                false => (entries.next_back(), &mut back),
            };
            match next {
                Some(entry) => end.push(entry),
                None => break,
            }
        }
        assert_eq!((entries.next(), entries.next_back()), (None, None));
        front.extend(back.into_iter().rev());
        front
    }

    #[test]
    fn keys_of_all_lengths_are_one_map_in_their_order() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (index, mut model) = (pair(), BTreeMap::new());
            for word in 0..600 {
                let key = key(&mut rng);
                match rng.u8(..8) {
                    0 => assert_eq!(index.remove(&key), model.remove(&key)),
                    1 => assert_eq!(
                        index.update(&key, word),
                        model.get_mut(&key).map(|it| std::mem::replace(it, word))
                    ),
                    _ => assert_eq!(
                        index.insert(&key, word).expect("there is memory"),
                        model.insert(key, word)
                    ),
                }
            }
            assert_eq!(index.len(), model.len());
            for _ in 0..100 {
                let (low, high) = (bound(&mut rng), bound(&mut rng));
                let within = |key: &Vec<u8>| {
                    let is_above = match &low {
                        Bound::Unbounded => true,
                        Bound::Included(low) => key >= low,
                        Bound::Excluded(low) => key > low,
                    };
                    is_above
                        && match &high {
                            Bound::Unbounded => true,
                            Bound::Included(high) => key <= high,
                            Bound::Excluded(high) => key < high,
                        }
                };
                let expected = model.iter().filter(|it| within(it.0));
                let expected: Vec<_> = expected.map(|(key, word)| (key.clone(), *word)).collect();
                let range = index.range(as_slice(&low), as_slice(&high));
                assert_eq!(taken(range, &mut rng), expected, "{low:?} {high:?}");

                let prefix = key(&mut rng);
                let expected = model.iter().filter(|it| it.0.starts_with(&prefix));
                let expected: Vec<_> = expected.map(|(key, word)| (key.clone(), *word)).collect();
                assert_eq!(
                    taken(index.prefix(&prefix), &mut rng),
                    expected,
                    "{prefix:?}"
                );

                let keys: Vec<_> = (0..rng.usize(..40)).map(|_| key(&mut rng)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let expected: Vec<_> = keys.iter().map(|key| model.get(*key).copied()).collect();
                let mut words = vec![None; keys.len()];
                index.get_many(&keys, &mut words);
                assert_eq!(words, expected);
                let (held, mut found) = (index.hold(), vec![None; keys.len()]);
                index.find_many(&held, &keys, &mut found);
                for (key, (found, word)) in keys.iter().zip(found.into_iter().zip(expected)) {
                    assert_eq!(found.map(|it| it.0), word);
                    let Some((word, spot)) = found else { continue };
                    assert_eq!(spot.is_none(), key.len() == WORD);
                    assert_eq!(index.word_found(spot, key), Some(word));
                    assert_eq!(index.update_found(spot, key, word), Some(word));
                }
            }
            let loaded = pair();
            let mut sorted = model.iter().map(|(key, word)| (&key[..], *word));
            loaded.load(&mut sorted).expect("there is memory");
            assert!(loaded.iter().eq(model));
        }
    }

    #[test]
    fn a_word_takes_less_memory_than_a_string() {
        let bytes = |pad: &[u8]| {
            let index = pair();
            for key in 0..50_000u64 {
                let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                let key = [&mixed, pad].concat();
                index.insert(&key, 1).expect("there is memory");
            }
            index.bytes()
        };
        let (words, strings) = (bytes(b""), bytes(b"1"));
        assert!(words * 10 < strings * 9, "{words} {strings}");
    }
}
