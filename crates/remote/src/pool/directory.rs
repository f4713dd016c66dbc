//! Who shares a tree: the compute servers that are alive, and the keys of each. It is in the first
//! chunk of memory server 0.
//!
//! | at | what |
//! |---|---|
//! | [`PARTITIONS`] | a lock, then the table of partitions; written under the lock |
//! | [`MEMBERS`] | a place for each compute server: a word with its number and its heartbeat |
//!
//! A heartbeat is a count. Only its owner adds to it, by compare-and-swap; who takes the owner for
//! dead replaces it by [`DEAD`], so only one of the two succeeds.

use std::ops::RangeInclusive;

use super::Patience;
use crate::address::{Address, ComputeId};
use crate::error::{Error, Result};
use crate::fabric::Connection;
use crate::key_ranges::KeyRanges;

/// Where owners and members are written: a word, 0 before the first member.
pub(crate) const KEEPER: Address = Address::new(0, 2 << 10);
/// The word for a pool whose own table has them. Others name what is elsewhere.
pub(crate) const KEPT_HERE: u64 = 1;
/// The lock of the table, which follows it.
pub(crate) const PARTITIONS: Address = Address::new(0, 4 << 10);
/// The compute servers.
pub(crate) const MEMBERS: Address = Address::new(0, 192 << 10);

/// The most compute servers at a time.
pub const MAX_MEMBERS: usize = 256;
/// The most partitions.
pub const MAX_PARTITIONS: usize = 8_000;

/// Words of the table before its partitions: version, count, checksum.
const HEAD: usize = 3;

const _: () =
    assert!(PARTITIONS.offset() + 8 * (1 + HEAD + 2 * MAX_PARTITIONS) as u64 <= MEMBERS.offset());
const _: () = assert!(MEMBERS.offset() as usize + 8 * MAX_MEMBERS <= super::CHUNK);

/// Keys that belong together: up to the first key of the next partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partition {
    first: u64,
    owner: Option<ComputeId>,
}

/// All partitions, in the order of their keys. The first begins with key 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Partitions {
    version: u64,
    all: Vec<Partition>,
}

impl Partitions {
    /// Those of a new tree: nobody has them. Each of these keys, which ascend, begins one.
    ///
    /// # Errors
    /// They are too many.
    pub fn new(boundaries: &[u64]) -> Result<Partitions> {
        let firsts = [0].into_iter().chain(boundaries.iter().copied());
        let mut all: Vec<_> = firsts
            .map(|first| Partition { first, owner: None })
            .collect();
        all.dedup_by_key(|it| it.first);
        Partitions { version: 0, all }.checked()
    }

    /// Reads the table.
    ///
    /// # Errors
    /// Memory server 0 does not answer, or has no table.
    pub async fn read(connection: &Connection) -> Result<Partitions> {
        // Another server may be writing it.
        let mut patience = Patience::default();
        loop {
            let head = connection.read(PARTITIONS.add(8), HEAD).await?;
            let words = HEAD + 2 * (head[1] as usize).min(MAX_PARTITIONS);
            let words = connection.read(PARTITIONS.add(8), words).await?;
            if let Some(table) = Partitions::of_words(&words) {
                return Ok(table);
            }
            if patience.is_over(connection).await {
                return Err(Error::NoTree("its table of partitions is damaged".into()));
            }
        }
    }

    /// Writes the table as its next version. The caller has the lock.
    ///
    /// # Errors
    /// There are too many partitions; or memory server 0 does not answer, and may have written it.
    pub async fn write(self, connection: &Connection) -> Result<()> {
        let next = self.next()?;
        let attempt = async || connection.write(PARTITIONS.add(8), next.words()).await;
        connection.insist(attempt).await
    }

    /// The next version of the table.
    ///
    /// # Errors
    /// There are too many partitions.
    pub fn next(self) -> Result<Partitions> {
        let version = self.version + 1;
        Partitions { version, ..self }.checked()
    }

    /// How often the table was written.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The keys of a compute server.
    pub fn keys_of(&self, compute: ComputeId) -> KeyRanges {
        self.ranges_of(Some(compute)).collect()
    }

    /// The partitions of a compute server, or those that nobody has.
    pub fn ranges_of(&self, owner: Option<ComputeId>) -> impl Iterator<Item = RangeInclusive<u64>> {
        let ranges = self.ranges().filter(move |it| it.1 == owner);
        ranges.map(|(keys, _)| keys)
    }

    /// All partitions, and who has them.
    pub fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<u64>, Option<ComputeId>)> {
        let lasts = self.all.iter().skip(1).map(|next| next.first - 1);
        let lasts = lasts.chain([u64::MAX]);
        let all = self.all.iter().zip(lasts);
        all.map(|(it, last)| (it.first..=last, it.owner))
    }

    /// Who has a key.
    pub fn owner(&self, key: u64) -> Option<ComputeId> {
        let after = self.all.partition_point(|it| it.first <= key);
        self.all[after - 1].owner
    }

    /// Gives keys to a compute server, or to nobody.
    pub fn assign(&mut self, keys: &RangeInclusive<u64>, owner: Option<ComputeId>) {
        let (first, next) = (*keys.start(), keys.end().checked_add(1));
        let after = next.map(|first| Partition {
            first,
            owner: self.owner(first),
        });
        self.all
            .retain(|it| !keys.contains(&it.first) && Some(it.first) != next);
        self.all
            .extend([Partition { first, owner }].into_iter().chain(after));
        self.all.sort_by_key(|it| it.first);
        // Partitions that nobody has are left for several to take.
        self.all
            .dedup_by(|it, before| it.owner.is_some() && it.owner == before.owner);
    }

    /// Gives all partitions of a compute server to others, each to the one that has the fewest; if
    /// there are none, to nobody. Says whether it had any.
    pub fn distribute(&mut self, from: ComputeId, to: &[ComputeId]) -> bool {
        let ranges: Vec<_> = self.ranges_of(Some(from)).collect();
        for keys in &ranges {
            let count = |it: &&ComputeId| self.ranges_of(Some(**it)).count();
            let least = to
                .iter()
                .filter(|it| **it != from)
                .min_by_key(count)
                .copied();
            self.assign(keys, least);
        }
        !ranges.is_empty()
    }

    fn checked(self) -> Result<Partitions> {
        match self.all.len() <= MAX_PARTITIONS {
            true => Ok(self),
            false => Err(Error::TooManyPartitions(self.all.len())),
        }
    }

    /// The table as words. Its version is among them.
    pub fn words(&self) -> Vec<u64> {
        let number = |owner: Option<ComputeId>| owner.map_or(0, ComputeId::number);
        let all = self.all.iter().flat_map(|it| [it.first, number(it.owner)]);
        let head = [self.version, self.all.len() as u64, 0];
        let mut words: Vec<u64> = head.into_iter().chain(all).collect();
        words[2] = checksum(&words);
        words
    }

    /// The table of these words, if they are one.
    pub fn of_words(words: &[u64]) -> Option<Partitions> {
        let (head, all) = words.split_first_chunk::<HEAD>()?;
        let [version, count, sum] = *head;
        if all.len() as u64 != 2 * count || sum != checksum(words) {
            return None;
        }
        let all = all.as_chunks().0.iter().map(|&[first, owner]| Partition {
            first,
            owner: ComputeId::new(owner),
        });
        let all: Vec<Partition> = all.collect();
        (all.first()?.first == 0).then_some(Partitions { version, all })
    }
}

/// Of all words but the checksum's own.
fn checksum(words: &[u64]) -> u64 {
    let others = words[..2].iter().chain(&words[HEAD..]);
    let sum = others.fold(0, |sum, word| {
        crc32c::crc32c_append(sum, &word.to_le_bytes())
    });
    // No memory that was never written has it.
    u64::from(sum) | 1 << 32
}

/// What the pool says of a compute server: a word with its number and its heartbeat. A free place
/// is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub compute: ComputeId,
    beat: u32,
}

/// The heartbeat of a compute server that was taken for dead.
const DEAD: u32 = (1 << BEAT_BITS) - 1;
const BEAT_BITS: u32 = u64::BITS - ComputeId::BITS;

impl Place {
    /// That of a compute server which has just come.
    pub fn new(compute: ComputeId) -> Place {
        Place { compute, beat: 0 }
    }

    /// Its number, and that it was taken for dead or not, without a heartbeat.
    pub fn known(compute: ComputeId, is_dead: bool) -> Place {
        let place = Place::new(compute);
        match is_dead {
            true => place.dead(),
            false => place,
        }
    }

    /// After one more heartbeat.
    pub fn next(self) -> Place {
        let beat = (self.beat + 1) % DEAD;
        Place { beat, ..self }
    }

    /// After it was taken for dead.
    pub fn dead(self) -> Place {
        Place { beat: DEAD, ..self }
    }

    /// Whether it was taken for dead.
    pub fn is_dead(self) -> bool {
        self.beat == DEAD
    }

    fn word(self) -> u64 {
        self.compute.number() << BEAT_BITS | u64::from(self.beat)
    }

    fn of_word(word: u64) -> Option<Place> {
        Some(Place {
            compute: ComputeId::new(word >> BEAT_BITS)?,
            beat: word as u32 & DEAD,
        })
    }
}

/// All places, with their numbers, that are not free.
///
/// # Errors
/// Memory server 0 does not answer.
pub(crate) async fn places(connection: &Connection) -> Result<Vec<(usize, Place)>> {
    let words = connection.read(MEMBERS, MAX_MEMBERS).await?;
    let places = words.into_iter().map(Place::of_word).enumerate();
    Ok(places
        .filter_map(|(number, place)| Some((number, place?)))
        .collect())
}

/// The compute servers that nobody has taken for dead.
///
/// # Errors
/// Memory server 0 does not answer.
pub(crate) async fn members(connection: &Connection) -> Result<Vec<ComputeId>> {
    let places = places(connection).await?.into_iter();
    let live = places.filter(|(_, place)| !place.is_dead());
    Ok(live.map(|(_, place)| place.compute).collect())
}

/// Takes a place for the connection's compute server.
///
/// # Errors
/// There is none, or memory server 0 does not answer.
pub(crate) async fn take_place(connection: &Connection) -> Result<(usize, Place)> {
    let mine = Place::new(connection.compute());
    for number in 0..MAX_MEMBERS {
        let attempt = async || change_place(connection, number, None, Some(mine)).await;
        if connection.insist(attempt).await? != Change::Not {
            return Ok((number, mine));
        }
    }
    Err(Error::TooManyMembers(MAX_MEMBERS))
}

/// What came of a change of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It is done.
    Now,
    /// It was so already: of an earlier attempt only the answer was lost, or another compute server
    /// did the same.
    Before,
    /// The place has something else.
    Not,
}

/// Changes what a place has.
///
/// # Errors
/// Memory server 0 does not answer.
pub(crate) async fn change_place(
    connection: &Connection,
    number: usize,
    from: Option<Place>,
    to: Option<Place>,
) -> Result<Change> {
    let [from, to] = [from, to].map(|place| place.map_or(0, Place::word));
    let at = MEMBERS.add(8 * number as u64);
    let found = connection.compare_exchange(at, from, to).await?;
    Ok(match found {
        _ if found == from => Change::Now,
        _ if found == to => Change::Before,
        _ => Change::Not,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(number: u64) -> ComputeId {
        ComputeId::new(number).unwrap()
    }

    #[test]
    fn keys_are_assigned_to_one() {
        let mut draws = fastrand::Rng::with_seed(4);
        for _ in 0..500 {
            let mut table = Partitions::new(&[3, 9]).unwrap();
            let mut model = [None; 12];
            for _ in 0..10 {
                let (a, b) = (draws.u64(0..12), draws.u64(0..12));
                // The last key stands for all that follow.
                let last = if a.max(b) == 11 { u64::MAX } else { a.max(b) };
                let owner = ComputeId::new(draws.u64(0..4));
                table.assign(&(a.min(b)..=last), owner);
                model[a.min(b) as usize..=a.max(b) as usize].fill(owner);
                for key in 0..12 {
                    assert_eq!(table.owner(key), model[key as usize]);
                }
                let mut next = 0;
                for (keys, owner) in table.ranges() {
                    assert_eq!((*keys.start(), owner), (next, table.owner(next)));
                    next = keys.end().wrapping_add(1);
                }
                assert_eq!(next, 0);
                assert_eq!(Partitions::of_words(&table.words()), Some(table.clone()));
            }
        }
    }

    #[test]
    fn the_partitions_of_one_go_to_those_with_the_fewest() {
        let mut table = Partitions::new(&[10, 20, 30, 40]).unwrap();
        let owners = [1, 2, 1, 3, 1].map(compute);
        for (first, owner) in (0..).step_by(10).zip(owners) {
            table.assign(&(first..=first + 9), Some(owner));
        }
        table.distribute(compute(1), &[compute(2), compute(1), compute(3)]);
        assert_eq!(table.ranges_of(Some(compute(1))).count(), 0);
        let counts = [2, 3].map(|it| table.keys_of(compute(it)).iter().count());
        assert!(counts.iter().all(|&count| count >= 1), "{counts:?}");
        table.distribute(compute(2), &[compute(2)]);
        assert!(table.ranges_of(None).count() >= 1);
    }

    #[test]
    fn a_place_is_a_word() {
        let mut place = Place::new(compute(u64::MAX));
        for _ in 0..DEAD {
            assert_eq!(Place::of_word(place.word()), Some(place));
            assert!(!place.is_dead());
            place = place.next();
        }
        assert_eq!(
            place,
            Place::new(compute(u64::MAX)),
            "heartbeats begin again"
        );
        assert_eq!(Place::of_word(place.dead().word()), Some(place.dead()));
        assert_eq!(Place::of_word(0), None);
    }

    #[test]
    fn a_damaged_table_is_seen() {
        let words = Partitions::new(&[5]).unwrap().words();
        for index in 0..words.len() {
            let mut words = words.clone();
            words[index] ^= 1 << 7;
            assert_eq!(Partitions::of_words(&words), None, "word {index}");
        }
        assert_eq!(Partitions::of_words(&[0; HEAD]), None);
        let many: Vec<u64> = (1..=MAX_PARTITIONS as u64).collect();
        let refused = Partitions::new(&many).err();
        assert_eq!(refused, Some(Error::TooManyPartitions(MAX_PARTITIONS + 1)));
    }
}
