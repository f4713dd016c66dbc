//! Keys and fences that are too long for a page: each is a block of its own, whose word the page
//! has. The blocks and their words are those of values (`value/block.rs`).
//!
//! Each word owns its block: of a separator that several pages have, there are as many blocks. A
//! block is written before a page refers to it, never changed, and retired when its word leaves the
//! last page that had it.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::{LockedNode, Page, Text, View};
use crate::error::Refused;
use crate::node::retired::Retired;
use crate::store::Store;
use crate::value::{Loan, NewBlock, ValueBlock, write_block};

/// The length of the string that a block's word refers to.
pub(super) fn len(word: u64) -> usize {
    ValueBlock::of_word(word).map_or(0, ValueBlock::len)
}

/// Access to the blocks of a page's keys.
pub struct Long<'m, M>(pub &'m M);

impl<'m, M: Memory> Long<'m, M> {
    /// Reads the block of a word that a page has, once it is certain that it has.
    #[inline(always)]
    pub fn in_view<'g, const WORDS: usize>(
        self,
        view: &View<'g, WORDS>,
    ) -> impl Fn(u64) -> Result<&'g [u8], Restart> + use<'m, 'g, M, WORDS> {
        #[cold]
        fn read<'g, const WORDS: usize>(
            view: &View<'g, WORDS>,
            word: u64,
            memory: &impl Memory,
        ) -> Result<&'g [u8], Restart> {
            view.validate()?;
            // SAFETY: validated, so the page has the word now, and the thread is pinned for `'g`.
            Ok(unsafe { Loan::new(word) }.bytes(memory))
        }
        let view = *view;
        move |word| read(&view, word, self.0)
    }

    /// The same of a locked page.
    pub fn in_locked<'g, const WORDS: usize>(
        self,
        _: &LockedNode<'g, WORDS>,
    ) -> impl Fn(u64) -> Result<&'g [u8], Restart> + use<'m, 'g, M, WORDS> {
        // SAFETY: nobody else changes the page, and a thread that has its lock is pinned.
        move |word| Ok(unsafe { Loan::new(word) }.bytes(self.0))
    }
}

/// Blocks of a key that are allocated before a lock is taken, and words that have left their pages.
pub struct LongKeys<'t> {
    ready: Vec<NewBlock<'t>>,
    dropped: Vec<u64>,
}

impl<'t> LongKeys<'t> {
    /// No key is too long.
    pub fn none() -> Self {
        let (ready, dropped) = (Vec::new(), Vec::new());
        LongKeys { ready, dropped }
    }

    /// So many blocks of a key, if it may be too long for a page without a prefix.
    pub fn of<const WORDS: usize>(
        store: &'t Store<impl Memory>,
        key: &[u8],
        blocks: usize,
        tier: TierId,
    ) -> Result<Self, Refused> {
        let mut keys = Self::none();
        if key.len() > Page::<WORDS>::INLINE {
            for _ in 0..blocks {
                keys.ready.push(write_block(store, tier, key)?);
            }
        }
        Ok(keys)
    }

    /// Blocks of these keys, to be used in this order.
    pub(super) fn of_all(
        store: &'t Store<impl Memory>,
        keys: Vec<Vec<u8>>,
        tier: TierId,
    ) -> Result<Self, Refused> {
        let mut blocks = Self::none();
        for key in keys.iter().rev() {
            blocks.ready.push(write_block(store, tier, key)?);
        }
        Ok(blocks)
    }

    /// The word of the next block.
    pub(super) fn next_block(&mut self) -> u64 {
        self.ready.pop().expect("a block for it").keep()
    }

    /// The key, with a block if it is too long beyond a prefix of so many bytes.
    pub(super) fn text<'k, const WORDS: usize>(
        &mut self,
        key: &'k [u8],
        prefix: usize,
    ) -> Text<'k> {
        let block = match key.len() - prefix > Page::<WORDS>::INLINE {
            true => self.next_block(),
            false => 0,
        };
        Text { bytes: key, block }
    }

    /// A word has left its page; 0 is none.
    pub(super) fn drop_block(&mut self, word: u64) {
        if word != 0 {
            self.dropped.push(word);
        }
    }

    /// Frees what no page has any more, when no thread can read it.
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        for word in self.dropped {
            // SAFETY: the page had the word, and no other page has it.
            unsafe { retire(word, store, guard) };
        }
    }
}

/// Frees the block of a word when no thread can read it.
///
/// # Safety
/// A page had the word. No page has it any more, and this is called once for it.
pub(super) unsafe fn retire(word: u64, store: &Store<impl Memory>, guard: &Guard) {
    if let Some(block) = ValueBlock::of_word(word) {
        // SAFETY: the slot of the block was kept for it; the rest is the caller's.
        unsafe { Retired::new(block.address(), block.slot(), false) }.reclaim(store, guard);
    }
}
