//! Slots: what a client computes of a key, and the keys of the tree that are a slot's.

use std::hash::Hasher;
use std::ops::RangeInclusive;

use siphasher::sip::SipHasher13;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;
/// Bits of a place that are a hash of the key, below those of its slot.
pub const HASH_BITS: u32 = u64::BITS - SLOTS.trailing_zeros();

/// The slot of a key: CRC-16 (XMODEM) of it, or of what is between its first `{` and the next `}`
/// if that is not empty.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key)) % SLOTS
}

fn tag_of(key: &[u8]) -> &[u8] {
    let tag = || {
        let rest = &key[key.iter().position(|&it| it == b'{')? + 1..];
        let end = rest.iter().position(|&it| it == b'}')?;
        (end > 0).then(|| &rest[..end])
    };
    tag().unwrap_or(key)
}

/// The remainders of all bytes.
static REMAINDERS: [u16; 256] = {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                crc << 1 ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        all[byte] = crc;
        byte += 1;
    }
    all
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        crc << 8 ^ REMAINDERS[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

/// Where keys are in the tree: by slot, then by a hash that clients can't choose collisions of.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    secret: u64,
}

impl Places {
    /// By a number that all nodes of a cluster know, and its clients don't.
    pub fn new(secret: u64) -> Places {
        Places { secret }
    }

    /// The place of a key.
    pub fn place_of(self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.secret, !self.secret);
        hasher.write(key);
        u64::from(slot_of(key)) << HASH_BITS | hasher.finish() >> (u64::BITS - HASH_BITS)
    }
}

/// The slot of a place.
pub fn slot_at(place: u64) -> u16 {
    (place >> HASH_BITS) as u16
}

/// The places of slots.
pub fn places_of(slots: &RangeInclusive<u16>) -> RangeInclusive<u64> {
    let first = |slot: u16| u64::from(slot) << HASH_BITS;
    first(*slots.start())..=first(*slots.end()) | ((1 << HASH_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Redis' specification of its cluster, and of `CLUSTER KEYSLOT` of redis-server 7.0.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [("foo", 12182), ("bar", 5061), ("hello", 866), ("", 0)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_tag_alone_counts_if_there_is_one() {
        let same = |a: &str, b: &str| slot_of(a.as_bytes()) == slot_of(b.as_bytes());
        assert!(same("{user1000}.following", "user1000"));
        assert!(same("a{b}c{d}", "b"));
        assert!(same("foo{{bar}}zap", "{bar"));
        for whole in ["foo{}{bar}", "{}", "{foo", "foo}", "}{"] {
            assert_eq!(slot_of(whole.as_bytes()), crc16(whole.as_bytes()) % SLOTS);
        }
    }

    #[test]
    fn the_places_of_slots_are_ranges() {
        let places = Places::new(7);
        for number in 0..1000 {
            let key = format!("key {number}").into_bytes();
            let (slot, place) = (slot_of(&key), places.place_of(&key));
            assert_eq!(slot_at(place), slot);
            assert!(places_of(&(slot..=slot)).contains(&place));
            assert_ne!(place, Places::new(8).place_of(&key));
        }
        assert_eq!(places_of(&(0..=SLOTS - 1)), 0..=u64::MAX);
        let (one, next) = (places_of(&(3..=5)), places_of(&(6..=6)));
        assert_eq!(one.end() + 1, *next.start());
    }
}
