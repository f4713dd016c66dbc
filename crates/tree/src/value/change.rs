//! Changes of a record's value.
//!
//! Whatever allocates, or may take long, runs before a lock is taken, for the value that was read
//! then. If the value differs once the leaf is locked, the attempt fails and is repeated.

use timberline_tier::{Memory, TierId};

use super::Loan;
use super::block::{NewBlock, ValueBlock};
use crate::MAX_VALUE;
use crate::error::Refused;
use crate::store::Store;

/// Makes a value's word from the previous one; `None` is no record.
pub trait Change {
    /// Whether [`prepare`](Self::prepare) does anything. If not, its callers' code is compiled out.
    const PREPARES: bool;

    /// Whether a word that is replaced owns anything: it is retired.
    const RETIRES: bool;

    /// Prepares for a record with this word, in a leaf in this tier. May be called again, for
    /// others.
    fn prepare(&mut self, before: Option<Loan<'_>>, tier: TierId) -> Result<(), Refused>;

    /// The word that replaces the one it was prepared for; `None` changes nothing. The leaf is
    /// locked, and takes the word.
    fn change(&mut self, before: Option<Loan<'_>>) -> Option<u64>;

    /// Frees what was prepared: the thread is not pinned any more, and words that it saw may be
    /// reused.
    fn forget(&mut self);
}

/// Makes words from words, under the lock.
impl<F: FnMut(Option<u64>) -> Option<u64>> Change for F {
    const PREPARES: bool = false;
    const RETIRES: bool = false;

    #[inline(always)]
    fn prepare(&mut self, _: Option<Loan<'_>>, _: TierId) -> Result<(), Refused> {
        Ok(())
    }

    #[inline(always)]
    fn change(&mut self, before: Option<Loan<'_>>) -> Option<u64> {
        self(before.map(Loan::word))
    }

    #[inline(always)]
    fn forget(&mut self) {}
}

/// Makes words that own something from words that do, under the lock.
pub(super) struct Replace<F>(pub F);

impl<F: FnMut(Option<Loan<'_>>) -> Option<u64>> Change for Replace<F> {
    const PREPARES: bool = false;
    const RETIRES: bool = true;

    fn prepare(&mut self, _: Option<Loan<'_>>, _: TierId) -> Result<(), Refused> {
        Ok(())
    }

    #[inline(always)]
    fn change(&mut self, before: Option<Loan<'_>>) -> Option<u64> {
        (self.0)(before)
    }

    fn forget(&mut self) {}
}

/// Makes a block of what `make` returns, if anything; it is freed if no leaf takes it.
pub(crate) struct InBlock<'s, M: Memory, F> {
    store: &'s Store<M>,
    make: F,
    ready: Option<Ready<'s>>,
}

/// The block that was made for a word and a tier.
struct Ready<'s> {
    before: Option<u64>,
    tier: TierId,
    after: Option<NewBlock<'s>>,
}

impl<'s, M: Memory, F: FnMut(Option<Loan<'_>>, &mut dyn FnMut(&[u8]))> InBlock<'s, M, F> {
    pub fn new(store: &'s Store<M>, make: F) -> Self {
        let ready = None;
        InBlock { store, make, ready }
    }
}

impl<M: Memory, F: FnMut(Option<Loan<'_>>, &mut dyn FnMut(&[u8]))> Change for InBlock<'_, M, F> {
    const PREPARES: bool = true;
    const RETIRES: bool = true;

    fn prepare(&mut self, loan: Option<Loan<'_>>, tier: TierId) -> Result<(), Refused> {
        let before = loan.map(Loan::word);
        let fits = |ready: &Ready<'_>| (ready.before, ready.tier) == (before, tier);
        if self.ready.as_ref().is_some_and(fits) {
            return Ok(());
        }
        self.forget();
        let (store, mut made) = (self.store, Ok(None));
        (self.make)(loan, &mut |bytes| {
            made = write_block(store, tier, bytes).map(Some);
        });
        let after = made?;
        self.ready = Some(Ready {
            before,
            tier,
            after,
        });
        Ok(())
    }

    fn change(&mut self, before: Option<Loan<'_>>) -> Option<u64> {
        let (ready, before) = (self.ready.take()?, before.map(Loan::word));
        debug_assert_eq!(ready.before, before, "it was prepared for what is there");
        ready.after.map(NewBlock::keep)
    }

    fn forget(&mut self) {
        self.ready = None;
    }
}

/// Whether a string is short enough for a value.
pub(super) fn check(bytes: &[u8]) -> Result<(), Refused> {
    match bytes.len() {
        ..=MAX_VALUE => Ok(()),
        len => Err(Refused::value_of(len)),
    }
}

/// Makes a block in this tier, or the next slower one that has room.
pub(crate) fn write_block<'s>(
    store: &'s Store<impl Memory>,
    tier: TierId,
    bytes: &[u8],
) -> Result<NewBlock<'s>, Refused> {
    check(bytes)?;
    if bytes.is_empty() {
        return Ok(NewBlock::EMPTY);
    }
    let slot = store.allocate_from(tier, ValueBlock::slot_for(bytes.len()))?;
    Ok(NewBlock::write(slot, bytes, &store.memory))
}
