//! The sequence numbers of a segment's records, by where the records begin.

use crate::location::{GRAIN, Location};

/// Records on either side of where one is expected, among which it is looked for first.
const NEAR: usize = 64;

/// Sequence numbers by place, as far as they were added.
#[derive(Default)]
pub(crate) struct Sequences {
    /// In grains, ascending. Apart from the numbers, so that a search reads few lines of memory.
    places: Vec<u32>,
    numbers: Vec<u64>,
}

impl Sequences {
    /// Adds that of a record behind all that were added.
    pub fn add(&mut self, location: Location, number: u64) {
        self.places.push(place(location));
        self.numbers.push(number);
    }

    /// That of the record there, if it was added.
    pub fn of(&self, location: Location) -> Option<u64> {
        let place = place(location);
        let (first, last) = (*self.places.first()?, *self.places.last()?);
        let passed = u64::from(place.checked_sub(first)?);
        // Were all records of the same length, it would be there.
        let expected = passed * self.places.len() as u64 / (u64::from(last - first) + 1);
        let from = (expected as usize).saturating_sub(NEAR);
        let to = (from + 2 * NEAR).min(self.places.len());
        let near = self.places.get(from..to).unwrap_or_default();
        let is_near = near.first().is_some_and(|&it| it <= place)
            && near.last().is_some_and(|&it| place <= it);
        let at = match is_near {
            true => from + near.binary_search(&place).ok()?,
            false => self.places.binary_search(&place).ok()?,
        };
        Some(self.numbers[at])
    }
}

fn place(location: Location) -> u32 {
    (location.offset() / GRAIN) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::SegmentId;
    use crate::record::{Kind, Record};

    fn at(offset: u64) -> Location {
        Location::of(
            SegmentId(3),
            offset,
            &Record::new(Kind::Put, 0, b"key", &[]),
        )
    }

    /// Lengths that differ by the position put most records far from where they are expected.
    #[test]
    fn each_number_is_found_and_no_other() {
        for lengths in [[5, 5, 5], [1, 5, 300], [300, 1, 1]] {
            let (mut sequences, mut offset, mut added) = (Sequences::default(), 4096, Vec::new());
            assert_eq!(sequences.of(at(offset)), None);
            for number in 0..3_000 {
                sequences.add(at(offset), number);
                added.push(offset);
                offset += GRAIN * lengths[number as usize / 1_000];
            }
            for (number, &offset) in (0..).zip(&added) {
                assert_eq!(sequences.of(at(offset)), Some(number), "{offset}");
            }
            for offset in (0..offset + 1_000).step_by(GRAIN as usize) {
                let is_added = added.binary_search(&offset).is_ok();
                assert_eq!(sequences.of(at(offset)).is_some(), is_added, "{offset}");
            }
        }
    }
}
