//! Reading all records, to find those that the disk has damaged.

use std::ops::Range;
use std::path::PathBuf;

use crate::cleaning::Records;
use crate::location::{Location, SegmentId};
use crate::record::Kind;
use crate::segment::START;
use crate::store::PENDING;
use crate::{Error, Store};

/// What [`Store::check`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Check {
    /// Records that are as they were written, obsolete ones too.
    pub records: u64,
    /// Damaged places, by file and place in it.
    pub damaged: Vec<Damage>,
}

/// Bytes of a file in which no whole record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub place: Range<u64>,
    /// The keys whose values are lost, in order; none if all records there were obsolete.
    pub keys: Vec<Vec<u8>>,
}

impl Store {
    /// Reads all records that are in files, and reports the damaged ones. The store works on
    /// meanwhile; records that are put during the check may not be read.
    ///
    /// # Errors
    /// The disk can't read a file, or memory is used up.
    pub async fn check(&self) -> Result<Check, Error> {
        let mut count = 0;
        // Ascending by segment and place.
        let mut found: Vec<(SegmentId, Damage)> = Vec::new();
        for segment in self.inner.log.segments() {
            let mut records = Records::new(&segment, START);
            loop {
                let next = records.next().await?;
                if let Some(from) = records.take_damage() {
                    let to = next.map_or(segment.written(), Location::offset);
                    let damage = Damage {
                        path: segment.path.clone(),
                        place: from..to,
                        keys: Vec::new(),
                    };
                    found.push((segment.id(), damage));
                }
                if next.is_none() {
                    break;
                }
                count += u64::from(records.record().kind != Kind::Seal);
            }
        }
        if !found.is_empty() {
            for (key, word) in self.inner.index.iter().filter(|it| it.1 != PENDING) {
                let location = Location::from_word(word);
                let (id, offset) = (location.segment(), location.offset());
                let behind = found.partition_point(|it| (it.0, it.1.place.start) <= (id, offset));
                if let Some((of, damage)) = found[..behind].last_mut()
                    && *of == id
                    && damage.place.contains(&offset)
                {
                    damage.keys.push(key);
                }
            }
        }
        Ok(Check {
            records: count,
            damaged: found.into_iter().map(|it| it.1).collect(),
        })
    }
}
