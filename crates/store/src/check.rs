//! Reading all records, to find those that the disk has damaged.

use std::ops::Range;
use std::path::PathBuf;

use crate::cleaning::Records;
use crate::location::{Location, SegmentId};
use crate::pieces::Descriptor;
use crate::record::{Kind, bytes_of};
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
    /// Where in the file, in bytes. For a value of which pieces were lost before the store was
    /// opened, this is the record that names them.
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
                costs(&mut found, Location::from_word(word), &key);
            }
            for value in self.inner.large.all() {
                for location in value.places() {
                    costs(&mut found, location, &value.key);
                }
            }
            for (_, damage) in &mut found {
                damage.keys.sort_unstable();
                damage.keys.dedup();
            }
        }
        for value in self.inner.large.all().iter().filter(|it| it.is_damaged()) {
            // Where the piece was, opening has reported. This is where the record is that names it.
            if let Some(damage) = self.lost(&value.key) {
                found.push(damage);
            }
        }
        Ok(Check {
            records: count,
            damaged: found.into_iter().map(|it| it.1).collect(),
        })
    }
    /// The record of a key whose value has lost pieces.
    fn lost(&self, key: &[u8]) -> Option<(SegmentId, Damage)> {
        let location = self.inner.locate(key)?;
        let segment = self.inner.log.segment(location.segment())?;
        let bytes = bytes_of(key.len(), Descriptor::BYTES, location.expires()) as u64;
        let damage = Damage {
            path: segment.path.clone(),
            place: location.offset()..location.offset() + bytes,
            keys: vec![key.to_vec()],
        };
        Some((segment.id(), damage))
    }
}

/// Notes a key for the damage at this location, if there is one.
fn costs(found: &mut [(SegmentId, Damage)], location: Location, key: &[u8]) {
    let (id, offset) = (location.segment(), location.offset());
    let behind = found.partition_point(|it| (it.0, it.1.place.start) <= (id, offset));
    if let Some((of, damage)) = found[..behind].last_mut()
        && *of == id
        && damage.place.contains(&offset)
    {
        damage.keys.push(key.to_vec());
    }
}
