//! Where the heads of an inner node begin in its keys: behind what all keys but the first share.
//!
//! The first entry's head means nothing, but for that of a key in a block: as for all of these, it
//! is what follows the prefix.

use super::text::word_at;
use super::write::Pen;
use super::{Fences, HEAD, LONG, Page, Shape};

impl<const WORDS: usize> Page<WORDS> {
    /// Makes the skip one for a key, too, that is to be inserted before `index`: it shrinks, or is
    /// as long as the key where that is the first that counts. Returns what the key's own head is
    /// behind.
    pub(super) fn skip_for(&self, index: usize, rest: &[u8], is_long: bool) -> usize {
        let (count, now) = (self.count(), self.fences().skip);
        if self.height() == 0 || index == 0 {
            debug_assert!(
                self.height() == 0 || count == 0,
                "a first child stays first"
            );
            return 0;
        }
        let skip = match (is_long, count) {
            (true, _) => 0,
            (false, 1) => rest.len(),
            (false, _) => {
                let text = self.text_of(1);
                alike(now.min(rest.len()), |done| {
                    self.eight(text + done).swap_bytes() ^ word_at(rest, done)
                })
            }
        };
        if skip != now {
            self.set_skip(skip);
        }
        skip
    }

    /// Makes the skip of an inner node that was filled as long as its keys allow, and its heads
    /// what follows.
    pub(super) fn place_heads(&self) {
        let count = self.count();
        if self.height() == 0 {
            return;
        }
        let len = |index| self.tag(self.text_of(index) - 1);
        let skip = match (1..count).any(|index| len(index) == LONG) {
            false if count > 1 => {
                let (first, last) = (self.text_of(1), self.text_of(count - 1));
                alike(len(1).min(len(count - 1)).into(), |done| {
                    (self.eight(first + done) ^ self.eight(last + done)).swap_bytes()
                })
            }
            _ => 0,
        };
        self.set_skip(skip);
    }

    /// Where the bytes of an entry's key begin in the heap.
    #[inline(always)]
    pub(super) fn text_of(&self, index: usize) -> usize {
        self.offset(self.shape().cap, index) + 1
    }

    /// Sets the skip, and the heads behind it. Those of keys in blocks stay: there is no skip then.
    fn set_skip(&self, skip: usize) {
        let Shape { count, cap, .. } = self.shape();
        self.set_fences(Fences {
            skip,
            ..self.fences()
        });
        let mut heads = Pen::at(self, 3 * cap + HEAD);
        for index in 1..count {
            let text = self.text_of(index);
            let head = match self.tag(text - 1) {
                LONG => self.head(cap, index),
                len => {
                    let bytes = usize::from(len).saturating_sub(skip).min(HEAD);
                    let lacking = u32::MAX.checked_shr(8 * bytes as u32).unwrap_or(0);
                    (self.eight(text + skip).swap_bytes() >> 32) as u32 & !lacking
                }
            };
            heads.push(head.into(), 32);
        }
        heads.finish();
    }
}

/// How many bytes are alike, of so many, where `differing` has eight bytes of which those that are
/// alike are zero, the first one highest.
fn alike(most: usize, differing: impl Fn(usize) -> u64) -> usize {
    let mut done = 0;
    while done < most {
        let differing = differing(done);
        if differing != 0 {
            return most.min(done + differing.leading_zeros() as usize / 8);
        }
        done += 8;
    }
    most
}
