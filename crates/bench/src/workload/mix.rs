//! The mix of operations: reads, updates, inserts, scans, and read-modify-writes.

use std::fmt;

use super::rng::Rng;
use super::stream::Op;

/// The longest scan, in records; lengths are uniform from 1 (YCSB's workload E).
pub(super) const LONGEST_SCAN: u64 = 100;

/// The percentage of each operation; the sum is 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Look up a key.
    pub read: u8,
    /// Overwrite the value of an existing key.
    pub update: u8,
    pub insert: u8,
    /// Read records in key order.
    pub scan: u8,
    /// Look up a key, then overwrite its value.
    pub read_modify_write: u8,
}

impl From<[u8; 5]> for Mix {
    /// In the order of the fields.
    fn from([read, update, insert, scan, read_modify_write]: [u8; 5]) -> Mix {
        Mix {
            read,
            update,
            insert,
            scan,
            read_modify_write,
        }
    }
}

impl Mix {
    /// All zero, to be filled in.
    pub const NONE: Mix = Mix {
        read: 0,
        update: 0,
        insert: 0,
        scan: 0,
        read_modify_write: 0,
    };

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> Op {
        let percent = rng.below(100) as u8;
        let until_update = self.read + self.update;
        let until_insert = until_update + self.insert;
        if percent < self.read {
            Op::Read
        } else if percent < until_update {
            Op::Update
        } else if percent < until_insert {
            Op::Insert
        } else if percent < until_insert + self.scan {
            Op::Scan(1 + rng.below(LONGEST_SCAN) as u16)
        } else {
            Op::ReadModifyWrite
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.read, "read"),
            (self.update, "update"),
            (self.insert, "insert"),
            (self.scan, "scan"),
            (self.read_modify_write, "read-modify-write"),
        ];
        let mut separator = "";
        for (percent, kind) in kinds.into_iter().filter(|(percent, _)| *percent > 0) {
            write!(f, "{separator}{percent} % {kind}")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    #[test]
    fn requests_come_in_the_promised_shares() {
        let mix = Mix {
            read: 50,
            update: 20,
            insert: 5,
            scan: 15,
            read_modify_write: 10,
        };
        let mut rng = Rng::new(1, 0);
        let mut counts = [0; 5];
        let mut lengths = [0; 100];
        for _ in 0..200_000 {
            let kind = match mix.draw(&mut rng) {
                Op::Read => 0,
                Op::Update => 1,
                Op::Insert => 2,
                Op::Scan(length) => {
                    lengths[usize::from(length) - 1] += 1;
                    3
                }
                Op::ReadModifyWrite => 4,
            };
            counts[kind] += 1;
        }
        chi_square::assert_fits(&counts, &[0.5, 0.2, 0.05, 0.15, 0.1]);
        chi_square::assert_fits(&lengths, &[0.01; 100]);
    }

    #[test]
    fn a_pure_mix_is_pure() {
        let mut rng = Rng::new(1, 0);
        let reads = Mix {
            read: 100,
            ..Mix::NONE
        };
        assert!((0..10_000).all(|_| reads.draw(&mut rng) == Op::Read));
        let scans = Mix {
            scan: 100,
            ..Mix::NONE
        };
        assert!((0..10_000).all(|_| matches!(scans.draw(&mut rng), Op::Scan(1..=100))));
    }

    #[test]
    fn says_what_it_is() {
        let mix = Mix {
            read: 95,
            insert: 5,
            ..Mix::NONE
        };
        assert_eq!(mix.to_string(), "95 % read, 5 % insert");
    }
}
