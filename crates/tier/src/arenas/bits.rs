//! The free slots of one chunk: a bit for each, and a summary bit for each word of 64.

/// A set of numbers below a bound, whose lowest is taken first.
///
/// Invariants: bit `w` of `summary` is set where `words[w]` is not 0; no word of `summary` before
/// `hint` has a bit set. A chunk of 2 MiB of the smallest slots has 32 words of summary, so a
/// search is short even after an insert has lowered the hint.
#[derive(Default)]
pub struct Bits {
    words: Vec<u64>,
    summary: Vec<u64>,
    hint: usize,
}

impl Bits {
    /// All numbers below `count`.
    pub fn all_below(count: usize) -> Self {
        let words = ones(count);
        Bits {
            summary: ones(words.len()),
            words,
            hint: 0,
        }
    }

    /// Removes up to `most` numbers, lowest first, and passes them to `take`. Returns their count.
    pub fn pop(&mut self, most: usize, mut take: impl FnMut(usize)) -> usize {
        let mut left = most;
        while left > 0 {
            let Some(&summary) = self.summary.get(self.hint) else {
                break;
            };
            if summary == 0 {
                self.hint += 1;
                continue;
            }
            let index = self.hint * 64 + summary.trailing_zeros() as usize;
            let mut word = self.words[index];
            while word != 0 && left > 0 {
                take(index * 64 + word.trailing_zeros() as usize);
                word &= word - 1;
                left -= 1;
            }
            self.words[index] = word;
            if word == 0 {
                self.summary[self.hint] = summary & (summary - 1);
            }
        }
        most - left
    }

    /// Inserts a number. Returns whether it was absent.
    pub fn insert(&mut self, number: usize) -> bool {
        let (index, bit) = (number / 64, 1 << (number % 64));
        let is_new = self.words[index] & bit == 0;
        self.words[index] |= bit;
        self.summary[index / 64] |= 1 << (index % 64);
        self.hint = self.hint.min(index / 64);
        is_new
    }
}

/// Words whose first `count` bits are set.
fn ones(count: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; count.div_ceil(64)];
    if !count.is_multiple_of(64) {
        words[count / 64] = (1 << (count % 64)) - 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_gives_out_what_a_sorted_set_would() {
        for count in [0, 1, 63, 64, 65, 4096, 4097, 10_000] {
            let mut bits = Bits::all_below(count);
            let mut model: BTreeSet<usize> = (0..count).collect();
            for round in 0..3 {
                // Takes some, puts back every third of these, in an order that jumps about.
                let some = count.div_ceil(2 + round);
                let mut taken = Vec::new();
                assert_eq!(bits.pop(some, |number| taken.push(number)), some);
                let expected: Vec<_> = (0..some).map_while(|_| model.pop_first()).collect();
                assert_eq!(taken, expected, "{count}, round {round}");
                for &number in taken.iter().rev().step_by(3) {
                    assert!(bits.insert(number));
                    assert!(!bits.insert(number), "it is there");
                    model.insert(number);
                }
            }
            let mut rest = Vec::new();
            assert_eq!(
                bits.pop(usize::MAX, |number| rest.push(number)),
                model.len()
            );
            assert_eq!(rest, model.into_iter().collect::<Vec<_>>());
        }
    }
}
