//! How links are stored: the two widths that an inner node's links have.

use std::fmt::Debug;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::link::{MOST_ALIGN, StoredLink};
use super::search;

/// How far links reach, which is how wide they are: [`Near`] or [`Far`].
///
/// Sealed, because unsafe code relies on it: nodes are followed to where a stored link leads.
pub trait Reach: sealed::Sealed + Send + Sync + Debug + 'static {
    /// The most bytes of arenas, all tiers together.
    const SPAN: usize;

    /// The link stored here, of which the node's version tells whether it is right.
    fn load(&self) -> StoredLink;
    /// The link stored here. What it leads to is complete.
    fn load_linked(&self) -> StoredLink;
    /// Stores a link to something that is complete.
    fn store(&self, link: StoredLink);

    /// Which of sixteen links lead anywhere (a bit each).
    #[inline(always)]
    fn occupied(links: &[Self; 16]) -> u32
    where
        Self: Sized,
    {
        let there = |link: &Self| u32::from(!link.load().is_none());
        links
            .iter()
            .enumerate()
            .fold(0, |bits, (at, link)| bits | there(link) << at)
    }
}

mod sealed {
    /// Keeps [`Reach`](super::Reach) to this module's two widths.
    pub trait Sealed {}
    impl Sealed for super::Near {}
    impl Sealed for super::Far {}
}

/// A link of 32 bits: arenas of up to 16 GiB, all tiers together.
#[derive(Debug)]
#[repr(transparent)]
pub struct Near(pub(super) AtomicU32);

impl Reach for Near {
    const SPAN: usize = (1 << 34) - MOST_ALIGN;

    #[inline(always)]
    fn load(&self) -> StoredLink {
        StoredLink::from_word(u64::from(self.0.load(Relaxed)) << 2)
    }

    #[inline(always)]
    fn load_linked(&self) -> StoredLink {
        StoredLink::from_word(u64::from(self.0.load(Acquire)) << 2)
    }

    #[inline(always)]
    fn store(&self, link: StoredLink) {
        self.0.store((link.word() >> 2) as u32, Release);
    }

    #[inline(always)]
    fn occupied(links: &[Near; 16]) -> u32 {
        // SAFETY: a `Near` is nothing but its word.
        let words = unsafe { &*std::ptr::from_ref(links).cast::<[AtomicU32; 16]>() };
        search::occupied(words)
    }
}

/// A link of 64 bits, for larger arenas.
#[derive(Debug)]
#[repr(transparent)]
pub struct Far(AtomicU64);

impl Reach for Far {
    const SPAN: usize = 1 << 56;

    #[inline(always)]
    fn load(&self) -> StoredLink {
        StoredLink::from_word(self.0.load(Relaxed))
    }

    #[inline(always)]
    fn load_linked(&self) -> StoredLink {
        StoredLink::from_word(self.0.load(Acquire))
    }

    #[inline(always)]
    fn store(&self, link: StoredLink) {
        self.0.store(link.word(), Release);
    }
}
