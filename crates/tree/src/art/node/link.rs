//! Links between nodes: a distance from the arenas' start, and what lies there.
//!
//! ```text
//! leaf:   distance, a multiple of 8    |    100
//! inner:  distance, a multiple of 32   | kind · 8        N48 and N256: of 64
//! pack:   distance, a multiple of 64   | 110000
//! dense leaf:    distance, a multiple of 64   | 111000
//! ```
//!
//! The distance counts from 64 bytes before the arenas, so that no link is 0, which is none. The
//! two lowest bits are always 0 and are not stored: 32 bits reach 16 GiB.

use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_tier::Arenas;

use super::{
    Body, DenseCapacity, DenseLeaf, Leaf, LockedDense, LockedPack, Node, Pack, Record, Terminal,
    search,
};

const LEAF: u64 = 0b100;
const PACK: u64 = 0b11_0000;
const DENSE: u64 = 0b11_1000;
/// What leaves, and packs and dense leaves, have in common and nothing else has.
const TAG: u64 = DENSE | LEAF;
/// Links to inner nodes leave room for this many values of a tag.
const INNER_ALIGN: usize = 32;
/// And those to the large ones, to packs and to dense leaves.
const WIDE_ALIGN: usize = 64;

/// The kind of an inner node: how many children it may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Three entries, sorted.
    N3 = 0,
    /// Sixteen entries, sorted.
    N16 = 1,
    /// An index of bytes into 48 children.
    N48 = 2,
    /// A child for each byte.
    N256 = 3,
}

impl Kind {
    /// A node's address is a multiple of this.
    pub(super) const fn align(self) -> usize {
        match self {
            Kind::N3 | Kind::N16 => INNER_ALIGN,
            Kind::N48 | Kind::N256 => WIDE_ALIGN,
        }
    }

    pub(super) fn of_bits(bits: u64) -> Kind {
        match bits & 3 {
            0 => Kind::N3,
            1 => Kind::N16,
            2 => Kind::N48,
            _ => Kind::N256,
        }
    }
}

/// Where distances count from.
#[derive(Clone, Copy, Debug)]
pub struct Base(usize);

impl Base {
    /// That of these arenas.
    pub fn of(arenas: &Arenas) -> Base {
        Base(arenas.range().start - WIDE_ALIGN)
    }

    fn distance(self, address: usize) -> u64 {
        (address - self.0) as u64
    }
}

/// Where a node is, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link(u64);

impl Link {
    /// No node.
    pub const NONE: Link = Link(0);

    /// The link to a leaf at `address`.
    pub fn to_leaf(base: Base, address: usize) -> Link {
        debug_assert!(address.is_multiple_of(8));
        Link(base.distance(address) | LEAF)
    }

    /// The link to an inner node at `address`.
    pub fn to_inner(base: Base, address: usize, kind: Kind) -> Link {
        assert!(
            address.is_multiple_of(kind.align()),
            "an inner node at {address:#x}"
        );
        Link(base.distance(address) | (kind as u64) << 3)
    }

    /// The link to a pack at `address`.
    pub fn to_pack(base: Base, address: usize) -> Link {
        assert!(address.is_multiple_of(WIDE_ALIGN), "a pack at {address:#x}");
        Link(base.distance(address) | PACK)
    }

    /// The link to a dense leaf at `address`.
    pub fn to_dense(base: Base, address: usize) -> Link {
        assert!(
            address.is_multiple_of(WIDE_ALIGN),
            "a dense leaf at {address:#x}"
        );
        Link(base.distance(address) | DENSE)
    }

    /// The link to what is like this at another `address`.
    pub fn moved_to(self, base: Base, address: usize) -> Link {
        match self {
            leaf if leaf.is_leaf() => Link::to_leaf(base, address),
            pack if pack.is_pack() => Link::to_pack(base, address),
            dense if dense.is_dense() => Link::to_dense(base, address),
            inner => Link::to_inner(base, address, inner.kind()),
        }
    }

    /// The link that was stored as this word.
    #[inline(always)]
    pub fn from_word(word: u64) -> Link {
        Link(word)
    }

    /// The link as a word to store.
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// Whether there is no node.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it leads to a leaf.
    #[inline(always)]
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// Whether it leads to a pack.
    #[inline(always)]
    pub fn is_pack(self) -> bool {
        self.0 & TAG == PACK
    }

    /// Whether it leads to a dense leaf.
    #[inline(always)]
    pub fn is_dense(self) -> bool {
        self.0 & TAG == DENSE
    }

    /// Whether it leads to a pack or a dense leaf.
    #[inline(always)]
    pub fn is_shared(self) -> bool {
        self.0 & (PACK | LEAF) == PACK
    }

    /// Whether it leads to what holds records.
    #[inline(always)]
    pub fn is_terminal(self) -> bool {
        // Asked of every link of a scan: a bit for each of the sixteen tags, instead of two
        // branches.
        const TERMINALS: u32 = {
            let (mut terminals, mut tag) = (0, 0);
            while tag < 16 {
                let word = tag << 2;
                let is_terminal = word & LEAF != 0 || word & PACK == PACK;
                terminals |= (is_terminal as u32) << tag;
                tag += 1;
            }
            terminals
        };
        TERMINALS >> (self.0 >> 2 & 15) & 1 != 0
    }

    /// Whether it leads to an inner node of the smallest kind.
    #[inline(always)]
    pub fn is_smallest(self) -> bool {
        !self.is_none() && !self.is_leaf() && self.kind() == Kind::N3
    }

    /// The kind of inner node that it leads to.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        Kind::of_bits(self.0 >> 3)
    }

    /// Where it leads.
    #[inline(always)]
    pub fn address(self, base: Base) -> usize {
        let tag = if self.is_leaf() {
            LEAF
        } else if self.is_shared() {
            DENSE
        } else {
            INNER_ALIGN as u64 - 1
        };
        base.0 + (self.0 & !tag) as usize
    }

    /// The inner node there, alive as long as the thread stays pinned.
    ///
    /// The link comes from a validated read, and leads to no records.
    #[inline(always)]
    pub fn node<'g, R: Reach>(self, base: Base, _pinned: impl Into<Pinned<'g>>) -> &'g Node<R> {
        debug_assert!(!self.is_none() && !self.is_terminal());
        let address = base.0 + (self.0 & !(INNER_ALIGN as u64 - 1)) as usize;
        // SAFETY: links to inner nodes are made of slots of the tree's arenas only, that are
        // claimed as such before they are linked, and links are validated before they are followed.
        // Arenas stay mapped while a tree or a deferred free needs them, and a slot is not used
        // again while a thread is pinned that may have seen a link to it. All fields are atomics.
        unsafe { &*std::ptr::with_exposed_provenance::<Node<R>>(address) }
    }

    /// The leaf there, alive as long as the thread stays pinned.
    ///
    /// The link comes from a validated read, and leads to a leaf.
    #[inline(always)]
    pub fn leaf<'g>(self, base: Base, _pinned: impl Into<Pinned<'g>>) -> Leaf<'g> {
        debug_assert!(self.is_leaf());
        let address = base.0 + (self.0 - LEAF) as usize;
        // SAFETY: as for `node`; a leaf is written before it is linked.
        unsafe { Leaf::at(address) }
    }

    /// The pack there, alive as long as the thread stays pinned.
    ///
    /// The link comes from a validated read, and leads to a pack.
    #[inline(always)]
    pub fn pack<'g>(self, base: Base, _pinned: impl Into<Pinned<'g>>) -> Pack<'g> {
        debug_assert!(self.is_pack());
        let address = base.0 + (self.0 - PACK) as usize;
        // SAFETY: as for `node`; a pack is written before it is linked.
        unsafe { Pack::at(address) }
    }

    /// The dense leaf there, alive as long as the thread stays pinned.
    ///
    /// The link comes from a validated read, and leads to a dense leaf.
    #[inline(always)]
    pub fn dense<'g>(self, base: Base, _pinned: impl Into<Pinned<'g>>) -> DenseLeaf<'g> {
        debug_assert!(self.is_dense());
        let address = base.0 + (self.0 - DENSE) as usize;
        // SAFETY: as for `node`; a dense leaf is written before it is linked.
        unsafe { DenseLeaf::at(address) }
    }

    /// What holds records there, alive as long as the thread stays pinned; `None` for an inner
    /// node.
    ///
    /// The link comes from a validated read, and leads somewhere.
    #[inline(always)]
    pub fn terminal<'g>(self, base: Base, pinned: impl Into<Pinned<'g>>) -> Option<Terminal<'g>> {
        if self.is_leaf() {
            return Some(Terminal::Leaf(self.leaf(base, pinned)));
        }
        if self.is_pack() {
            return Some(Terminal::Pack(self.pack(base, pinned)));
        }
        self.is_dense()
            .then(|| Terminal::DenseLeaf(self.dense(base, pinned)))
    }

    /// Makes an inner node of a slot that nobody else knows.
    pub fn claim<'g, R: Reach>(
        self,
        base: Base,
        pinned: impl Into<Pinned<'g>>,
    ) -> timberline_sync::Exclusive<'g, Body<R>> {
        self.forget_versions(base);
        self.node(base, pinned).claim()
    }

    /// Writes a leaf into a slot of [`leaf_bytes`](super::leaf_bytes) that nobody else knows, to
    /// which this leads.
    pub fn claim_leaf(self, base: Base, key: &[u8], value: u64, heat: u16) {
        debug_assert!(self.is_leaf());
        // SAFETY: links to leaves are made of slots of a leaf's size and alignment; this one is the
        // caller's alone.
        unsafe { Leaf::write(self.address(base), key, value, heat) };
    }

    /// Makes an empty dense leaf, for keys that begin as this one, of a slot that nobody else
    /// knows.
    pub fn claim_dense<'g>(
        self,
        base: Base,
        key: &[u8; 8],
        room: DenseCapacity,
        heat: u16,
        pinned: impl Into<Pinned<'g>>,
    ) -> LockedDense<'g> {
        self.forget_versions(base);
        self.dense(base, pinned).write(key, room, heat)
    }

    /// Makes a pack of records, which ascend by key, of a slot that nobody else knows.
    pub fn claim_pack<'g>(
        self,
        base: Base,
        depth: usize,
        records: &[Record],
        heat: u16,
        pinned: impl Into<Pinned<'g>>,
    ) -> LockedPack<'g> {
        self.forget_versions(base);
        self.pack(base, pinned).write(depth, records, heat)
    }

    /// A slot may have been a leaf before, whose words are no versions: they begin anew, as the
    /// epoch keeps all who saw the former node from seeing the next.
    fn forget_versions(self, base: Base) {
        let address = self.address(base);
        // SAFETY: the slot is the caller's alone, and at least a word long.
        let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(address) };
        word.store(0, Relaxed);
    }

    /// Gives the node's slot of `bytes` bytes back to its arena. The node is unlinked (or never was
    /// linked) and nobody can look at it any more.
    pub fn free(self, base: Base, bytes: usize, arenas: &Arenas) {
        let slot = NonNull::new(self.address(base) as *mut u8).expect("no node lies at 0");
        // SAFETY: a link is made of a slot that was allocated with this size, and is freed once: by
        // the thread that failed to link it, or by the one that unlinked it, when the epoch says
        // that all others are gone.
        unsafe { arenas.free(slot, bytes) };
    }
}

/// How far links reach, which is how wide they are: [`Near`] or [`Far`].
///
/// Sealed, because unsafe code relies on it: nodes are followed to where a stored link leads.
pub trait Reach: sealed::Sealed + Send + Sync + Debug + 'static {
    /// The most bytes of arenas, all tiers together.
    const SPAN: usize;

    /// The link stored here.
    fn load(&self) -> Link;
    /// Stores a link.
    fn store(&self, link: Link);

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
pub struct Near(AtomicU32);

impl Reach for Near {
    const SPAN: usize = (1 << 34) - WIDE_ALIGN;

    #[inline(always)]
    fn load(&self) -> Link {
        Link(u64::from(self.0.load(Relaxed)) << 2)
    }

    #[inline(always)]
    fn store(&self, link: Link) {
        self.0.store((link.0 >> 2) as u32, Relaxed);
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
    fn load(&self) -> Link {
        Link(self.0.load(Relaxed))
    }

    #[inline(always)]
    fn store(&self, link: Link) {
        self.0.store(link.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_tell_what_they_lead_to() {
        let base = Base((1 << 40) - WIDE_ALIGN);
        let near = Near(AtomicU32::new(0));
        assert!(near.load().is_none());
        for distance in [0, 64, 1 << 20, (1 << 34) - 128] {
            let address = (1 << 40) + distance;
            for link in [Link::to_dense(base, address), Link::to_pack(base, address)] {
                assert!(link.is_terminal() && !link.is_leaf() && !link.is_smallest());
                assert!(link.is_dense() != link.is_pack());
                assert_eq!(link.address(base), address);
                near.store(link);
                assert_eq!(near.load(), link);
            }
            for kind in [Kind::N3, Kind::N16, Kind::N48, Kind::N256] {
                let address = address + WIDE_ALIGN - kind.align();
                let link = Link::to_inner(base, address, kind);
                assert!(!link.is_none() && !link.is_terminal());
                assert_eq!((link.kind(), link.address(base)), (kind, address));
                near.store(link);
                assert_eq!(near.load(), link);
            }
            for address in [address, address + 8, address + 24] {
                let link = Link::to_leaf(base, address);
                assert!(!link.is_none() && link.is_leaf() && !link.is_dense());
                assert_eq!(link.address(base), address);
                near.store(link);
                assert_eq!(near.load(), link);
            }
        }
    }
}
