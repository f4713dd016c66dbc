//! Reading all records, to find those that the disk has damaged.

use std::ops::Range;
use std::path::PathBuf;

use timberline_io::SECTOR;

use crate::header::{HEADER, Header};
use crate::location::{Location, SegmentId};
use crate::pieces::{Descriptor, piece_of};
use crate::read::read;
use crate::record::Record;
use crate::records::Records;
use crate::segment::{START, Segment};
use crate::store::PENDING;
use crate::{Error, Store};

/// What [`Store::check`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Check {
    /// Records that are as they were written, obsolete ones too.
    pub records: u64,
    /// Damaged places, by file and place in it.
    pub damaged: Vec<Damage>,
    /// Values in pieces of which some were lost before the store was opened, by key.
    pub incomplete: Vec<Incomplete>,
}

/// Bytes of a file in which no whole record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub place: Range<u64>,
    /// The keys whose values are lost, in order; those of [dropped](crate::Dropped) records as long
    /// as the store that dropped them is open. None if no key has its value there: if all records
    /// were obsolete, or the place is a segment's header; or if they were pieces of an
    /// [`incomplete`](Check::incomplete) value, and nobody can tell any more of which.
    pub keys: Vec<Vec<u8>>,
}

/// A value that is lost since not all of its pieces were found when the store was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incomplete {
    /// The key that has it.
    pub key: Vec<u8>,
    /// The file with the key's record, which names the pieces, and is whole.
    pub path: PathBuf,
    /// Where in the file the record begins, in bytes.
    pub offset: u64,
    /// How many pieces are lost.
    pub missing: usize,
    /// How many there were.
    pub pieces: usize,
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
            let block = read(&segment, 0..START).await?;
            if Header::decode(&block).is_err() {
                found.push((segment.id(), self.damage(&segment, 0..HEADER as u64)));
            }
            let mut records = Records::new(&segment, START);
            loop {
                let next = records.next().await?;
                if let Some(damaged) = records.take_damage() {
                    let to = next.map_or(segment.written(), Location::offset);
                    found.push((segment.id(), self.damage(&segment, damaged.from..to)));
                }
                if next.is_none() {
                    break;
                }
                count += u64::from(!records.record().kind.is_of_segment());
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
            for (id, damage) in &mut found {
                let piece = self.lost_piece(*id, damage.place.start).await?;
                damage.keys.extend(piece);
                damage.keys.sort_unstable();
                damage.keys.dedup();
            }
        }
        Ok(Check {
            records: count,
            damaged: found.into_iter().map(|it| it.1).collect(),
            incomplete: self.incomplete(),
        })
    }

    /// A damaged place, with what opening the store found that it costs.
    fn damage(&self, segment: &Segment, place: Range<u64>) -> Damage {
        let dropped = self.inner.dropped.iter();
        let here = dropped.filter(|it| it.path == segment.path && place.contains(&it.offset));
        Damage {
            path: segment.path.clone(),
            keys: here.flat_map(|it| it.keys.clone()).collect(),
            place,
        }
    }

    /// The key of which a piece was at a damaged place, if opening the store did not find that
    /// piece, and its name is still there.
    async fn lost_piece(&self, id: SegmentId, offset: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(segment) = self.inner.log.segment(id) else {
            return Ok(None);
        };
        let sector = SECTOR as u64;
        let start = offset / sector * sector;
        let end = segment.written().next_multiple_of(sector);
        let bytes = read(&segment, start..(start + 2 * sector).min(end)).await?;
        let record = bytes.get((offset - start) as usize..);
        let piece = record.and_then(|it| piece_of(&Record::without_value(it)?));
        let key = piece.and_then(|(id, number)| {
            let value = self.inner.large.get(id)?;
            let is_missing = value.missing().contains(&number);
            is_missing.then(|| value.key.to_vec())
        });
        Ok(key)
    }

    /// Values of which pieces are lost.
    fn incomplete(&self) -> Vec<Incomplete> {
        let mut all: Vec<_> = self.inner.large.all();
        all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let incomplete = all.iter().filter_map(|value| {
            let missing = value.missing().len();
            let location = self.inner.locate(&value.key).filter(|_| missing > 0)?;
            Some(Incomplete {
                key: value.key.to_vec(),
                path: self.inner.log.segment(location.segment())?.path.clone(),
                offset: location.offset(),
                missing,
                pieces: Descriptor::count(value.descriptor()),
            })
        });
        incomplete.collect()
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
