//! The keys that belong to a compute server.

use std::ops::RangeInclusive;

/// Disjoint ranges of keys in ascending order, with other keys between any two of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct KeyRanges(Vec<RangeInclusive<u64>>);

impl KeyRanges {
    /// Whether a key is in one of them.
    pub fn contains(&self, key: u64) -> bool {
        self.covers(&(key..=key))
    }

    /// Whether all keys of a range are in one of them.
    pub fn covers(&self, keys: &RangeInclusive<u64>) -> bool {
        self.first_outside(keys).is_none()
    }

    /// The first key of a range that is in none of them.
    pub fn first_outside(&self, keys: &RangeInclusive<u64>) -> Option<u64> {
        let after = self
            .0
            .partition_point(|range| range.start() <= keys.start());
        let before = after.checked_sub(1).map(|index| *self.0[index].end());
        match before.filter(|end| end >= keys.start()) {
            Some(end) if end < *keys.end() => Some(end + 1),
            Some(_) => None,
            None => Some(*keys.start()),
        }
    }

    /// These keys without those of others.
    pub fn without(&self, others: &KeyRanges) -> KeyRanges {
        let mut rest = self.clone();
        others.0.iter().for_each(|keys| rest.remove(keys));
        rest
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        self.0.iter().cloned()
    }

    /// Adds keys.
    pub fn insert(&mut self, keys: &RangeInclusive<u64>) {
        let (mut start, mut end) = (*keys.start(), *keys.end());
        self.0.retain(|range| {
            let is_apart = range.end().checked_add(1).is_some_and(|next| next < start)
                || end.checked_add(1).is_some_and(|next| next < *range.start());
            if !is_apart {
                (start, end) = (start.min(*range.start()), end.max(*range.end()));
            }
            is_apart
        });
        let at = self.0.partition_point(|range| *range.start() < start);
        self.0.insert(at, start..=end);
    }

    /// Removes keys, if they are there.
    pub fn remove(&mut self, keys: &RangeInclusive<u64>) {
        let (start, end) = (*keys.start(), *keys.end());
        let rest = self.0.iter().flat_map(|range| {
            let before = start.checked_sub(1).map(|last| last.min(*range.end()));
            let after = end.checked_add(1).map(|first| first.max(*range.start()));
            let before = before.map(|last| *range.start()..=last);
            let after = after.map(|first| first..=*range.end());
            [before, after]
        });
        self.0 = rest.flatten().filter(|range| !range.is_empty()).collect();
    }
}

impl FromIterator<RangeInclusive<u64>> for KeyRanges {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u64>>>(ranges: I) -> KeyRanges {
        let mut all = KeyRanges::default();
        ranges.into_iter().for_each(|range| all.insert(&range));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sets_of_keys() {
        let mut draws = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let (mut ranges, mut model) = (KeyRanges::default(), [false; 16]);
            for _ in 0..8 {
                // Keys at both ends of what there is.
                let (a, b) = (draws.u64(0..16), draws.u64(0..16));
                let keys = key(a).min(key(b))..=key(a).max(key(b));
                let adds = draws.bool();
                match adds {
                    true => ranges.insert(&keys),
                    false => ranges.remove(&keys),
                }
                for (number, has) in model.iter_mut().enumerate() {
                    if keys.contains(&key(number as u64)) {
                        *has = adds;
                    }
                }
                for (number, has) in model.iter().enumerate() {
                    assert_eq!(ranges.contains(key(number as u64)), *has);
                }
                assert!(ranges.0.is_sorted_by(|a, b| a.end() + 1 < *b.start()));
                assert_eq!(ranges.iter().collect::<KeyRanges>(), ranges);
            }
        }
        fn key(number: u64) -> u64 {
            number.wrapping_sub(8)
        }
    }

    #[test]
    fn a_range_is_covered_by_one() {
        let ranges: KeyRanges = [0..=9, 20..=u64::MAX].into_iter().collect();
        assert!(ranges.covers(&(3..=9)) && ranges.covers(&(20..=u64::MAX)));
        assert_eq!(ranges.first_outside(&(3..=30)), Some(10));
        assert_eq!(ranges.first_outside(&(15..=30)), Some(15));
    }
}
