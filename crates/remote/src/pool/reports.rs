//! What members report of their load, so that one of them can give keys away. It is in the first
//! chunk of memory server 0, behind the members.
//!
//! | at | what |
//! |---|---|
//! | [`REPORTS`] | a word for each member's place: the table's version, and requests a second |
//! | [`MOVES`] | a lock: who has it gives keys away because of the load |
//!
//! A member compares reports of one version of the table of partitions. Each was measured
//! since its member knew that version, so none is of a time when keys were others'.

use crate::address::Address;
use crate::error::Result;
use crate::fabric::Connection;

use super::directory::{MAX_MEMBERS, MEMBERS};

pub(crate) const REPORTS: Address = MEMBERS.add(8 * MAX_MEMBERS as u64);
pub(crate) const MOVES: Address = REPORTS.add(8 * MAX_MEMBERS as u64);

const _: () = assert!(MOVES.offset() as usize + 8 <= super::CHUNK);

/// The bit of every report: memory that was never written has none.
const IS_THERE: u64 = 1 << 63;
/// Bits of the version that are reported.
const VERSION: u64 = (1 << 31) - 1;

/// What a member was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    /// Of the table of partitions meanwhile.
    version: u32,
    /// Requests a second.
    pub rate: u32,
}

impl Report {
    pub fn new(version: u64, rate: f64) -> Report {
        Report {
            version: (version & VERSION) as u32,
            rate: rate as u32,
        }
    }

    /// Whether the table had this version meanwhile.
    pub fn is_of(self, version: u64) -> bool {
        u64::from(self.version) == version & VERSION
    }

    fn word(self) -> u64 {
        IS_THERE | u64::from(self.version) << 32 | u64::from(self.rate)
    }

    fn of_word(word: u64) -> Option<Report> {
        (word & IS_THERE != 0).then_some(Report {
            version: (word >> 32 & VERSION) as u32,
            rate: word as u32,
        })
    }

    /// Writes the report of the member with this place; `None` takes an earlier one back.
    ///
    /// # Errors
    /// Memory server 0 does not answer.
    pub async fn write(
        report: Option<Report>,
        connection: &Connection,
        number: usize,
    ) -> Result<()> {
        let word = report.map_or(0, Report::word);
        let at = REPORTS.add(8 * number as u64);
        connection.write(at, vec![word]).await
    }

    /// The reports of all places.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn read_all(connection: &Connection) -> Result<Vec<Option<Report>>> {
        let words = connection.read(REPORTS, MAX_MEMBERS).await?;
        Ok(words.into_iter().map(Report::of_word).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_word() {
        assert_eq!(Report::of_word(0), None);
        for (version, rate) in [(0, 0.0), (7, 1e6), (u64::MAX, 1e12), (1 << 31, -1.0)] {
            let report = Report::new(version, rate);
            assert_eq!(Report::of_word(report.word()), Some(report));
            assert!(report.is_of(version) && !report.is_of(version.wrapping_add(1)));
        }
        assert_eq!(Report::new(1, 1e12).rate, u32::MAX);
    }
}
