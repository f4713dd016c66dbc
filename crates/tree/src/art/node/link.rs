//! Links between nodes: a distance from the start of the arenas, and the kind of the target.
//!
//! ```text
//! leaf:   distance, a multiple of 8    |    100
//! inner:  distance, a multiple of 32   | kind · 8        N48: of 64, N256: of 128
//! N256 without a prefix:                 1011000
//! pack:   distance, a multiple of 64   |  110000
//! dense leaf:     a multiple of 128    | 0111000         1111000: it has all its records
//! ```
//!
//! The distance counts from 128 bytes before the arenas, so that 0 is free to mean no link. The two
//! lowest bits are always 0 and are not stored: 32 bits reach 16 GiB.
//!
//! A link to a node of 256 tells whether it has no prefix: a lookup follows such a [`Direct`] link
//! without a look at the node's header. A node that gets a prefix later has another link from then
//! on; the old one, which readers may still have, leads to the same entries.
//!
//! A [`StoredLink`] is the form in a node. It has the target's kind and address, and may be out of
//! date. A [`Link`] can be followed. It comes from a validated read, from a locked node or from its
//! target, and carries the lifetime of the guard that was held.

use std::marker::PhantomData;
use std::ops::Deref;

use timberline_sync::{Restart, Versioned};
use timberline_tier::hint::LINE;

use super::base::Base;
use super::body::Node;
use super::direct::Direct;
use super::inner::Inner;
use super::reach::Reach;
use super::{DenseLeaf, Leaf, Pack, Terminal};

const LEAF: u64 = 0b100;
const PACK: u64 = 0b11_0000;
const DENSE: u64 = 0b11_1000;
/// A dense leaf with a record for each of its keys.
const FULL: u64 = 0b100_0000 | DENSE;
/// The bit that links to packs, dense leaves and large inner nodes have, and those to inner nodes
/// of 3 and 16 have not.
const NOT_SMALL: u64 = 0b1_0000;
/// The bits that tell leaves, packs and dense leaves from each other and from inner nodes.
const TAG: u64 = DENSE | LEAF;
/// Tag values that the alignment of inner nodes leaves free.
const INNER_ALIGN: usize = 32;
/// The same for nodes of 48, and packs.
const WIDE_ALIGN: usize = 64;
/// The same for nodes of 256, and dense leaves.
pub(super) const MOST_ALIGN: usize = 128;
/// The tag of a node of 256 without a prefix.
const DIRECT: u64 = 0b101_1000;
/// The tag of one with a prefix.
const PREFIXED: u64 = Kind::N256.tag();

/// The most lines in which an inner node of this kind lies.
const fn lines_of<R: Reach>(kind: Kind) -> usize {
    (kind.bytes::<R>() + LINE - kind.align()).div_ceil(LINE)
}

/// The kind of an inner node: its greatest number of children.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Three sorted entries.
    N3 = 0,
    /// Sixteen sorted entries.
    N16 = 1,
    /// An index of bytes into 48 children.
    N48 = 2,
    /// A child for each byte.
    N256 = 3,
}

impl Kind {
    /// The alignment of a node's address.
    pub(super) const fn align(self) -> usize {
        match self {
            Kind::N3 | Kind::N16 => INNER_ALIGN,
            Kind::N48 => WIDE_ALIGN,
            Kind::N256 => MOST_ALIGN,
        }
    }

    /// The tag in links to nodes of this kind.
    const fn tag(self) -> u64 {
        (self as u64) << 3
    }

    #[inline(always)]
    pub(super) fn of_bits(bits: u64) -> Kind {
        match bits & 3 {
            0 => Kind::N3,
            1 => Kind::N16,
            2 => Kind::N48,
            _ => Kind::N256,
        }
    }
}

/// A link in the form in which a node stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct StoredLink(u64);

impl StoredLink {
    /// No node.
    pub const NONE: StoredLink = StoredLink(0);

    /// The link to a leaf at `address`.
    pub(super) fn to_leaf<R>(base: Base<R>, address: usize) -> Self {
        debug_assert!(address.is_multiple_of(8));
        StoredLink(base.distance(address) | LEAF)
    }

    /// The link to an inner node at `address`, which has a prefix or none.
    pub(super) fn to_inner<R>(base: Base<R>, address: usize, kind: Kind, has_prefix: bool) -> Self {
        assert!(
            address.is_multiple_of(kind.align()),
            "an inner node at {address:#x}"
        );
        let tag = match (kind, has_prefix) {
            (Kind::N256, false) => DIRECT,
            _ => kind.tag(),
        };
        StoredLink(base.distance(address) | tag)
    }

    /// The link to an inner node that has a prefix by now.
    pub(super) fn with_prefix(self) -> Self {
        match self.is_direct() {
            true => StoredLink(self.0 - DIRECT + PREFIXED),
            false => self,
        }
    }

    /// The link to a pack at `address`.
    pub(super) fn to_pack<R>(base: Base<R>, address: usize) -> Self {
        assert!(address.is_multiple_of(WIDE_ALIGN), "a pack at {address:#x}");
        StoredLink(base.distance(address) | PACK)
    }

    /// The link to a dense leaf at `address`, which has all its records or not.
    pub(super) fn to_dense<R>(base: Base<R>, address: usize, is_full: bool) -> Self {
        assert!(
            address.is_multiple_of(MOST_ALIGN),
            "a dense leaf at {address:#x}"
        );
        let tag = if is_full { FULL } else { DENSE };
        StoredLink(base.distance(address) | tag)
    }

    /// Whether both lead to the same node, whatever they tell of a dense leaf's records.
    pub(super) fn leads_where(self, other: StoredLink) -> bool {
        let differ = self.0 ^ other.0;
        differ == 0 || (self.is_dense() && differ == FULL ^ DENSE)
    }

    /// The link of a stored word.
    #[inline(always)]
    pub(super) fn from_word(word: u64) -> Self {
        StoredLink(word)
    }

    /// The link as a word to store.
    #[inline(always)]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The link in the form that can be followed.
    ///
    /// # Safety
    /// It is [`NONE`](Self::NONE), or leads to a complete node that is not freed before `'g` ends:
    /// one that was linked at some moment of `'g` while a guard held back the epoch, or one that
    /// the caller owns.
    #[inline(always)]
    pub(super) unsafe fn alive<'g>(self) -> Link<'g> {
        Link {
            stored: self,
            alive: PhantomData,
        }
    }

    /// Whether this is no link.
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

    /// Whether it leads to a dense leaf with a record for each of its keys.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        self.0 & (FULL | LEAF) == FULL
    }

    /// Whether it leads to a node of 256 without a prefix.
    #[inline(always)]
    fn is_direct(self) -> bool {
        self.0 & (MOST_ALIGN as u64 - 1) == DIRECT
    }

    /// Whether it leads to an inner node that is read at a version, below a parent that is.
    #[inline(always)]
    pub fn needs_versions(self) -> bool {
        !self.is_none() && !self.is_terminal() && !self.is_direct()
    }

    /// Whether it leads to an inner node of 3 or of 16.
    #[inline(always)]
    pub fn is_small(self) -> bool {
        !self.is_none() && self.0 & (LEAF | NOT_SMALL) == 0
    }

    /// Whether it leads to a pack or a dense leaf.
    #[inline(always)]
    pub fn is_shared(self) -> bool {
        self.0 & (PACK | LEAF) == PACK
    }

    /// Whether it leads to a leaf, a pack or a dense leaf.
    #[inline(always)]
    pub fn is_terminal(self) -> bool {
        self.is_leaf() || self.is_shared()
    }

    /// Whether it leads to a leaf or a pack.
    #[inline(always)]
    pub fn is_record(self) -> bool {
        // Scans test each link: a bit for each value of the six lowest bits, instead of two
        // branches.
        const RECORDS: u64 = {
            let (mut records, mut word) = (0, 0);
            while word < 64 {
                let is_record = word & LEAF != 0 || word & TAG == PACK;
                records |= (is_record as u64) << word;
                word += 1;
            }
            records
        };
        RECORDS >> (self.0 & 63) & 1 != 0
    }

    /// The kind of the inner node, if it leads to one.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        Kind::of_bits(self.0 >> 3)
    }

    /// The address of a node of 256 to which a link without a prefix leads.
    #[inline(always)]
    pub(super) fn direct_address<R>(self, base: Base<R>) -> usize {
        base.start + (self.0 - DIRECT) as usize
    }

    /// An address in the first line, and one in the last, of the leaf of a key of eight bytes, or
    /// of the pack, to which it leads. The same sum for both, so that no branch has to tell them
    /// apart: the tag lies within the first word of a leaf, and within the only line of a pack.
    #[inline(always)]
    pub fn record_lines<R>(self, base: Base<R>) -> [usize; 2] {
        let first = base.start + self.0 as usize;
        [first, first + 15]
    }

    /// An address in the first line of the inner node of 3 or 16 to which it leads, and in how many
    /// lines that lies: the tag is within the node's first 32 bytes, which are aligned.
    #[inline(always)]
    pub fn small_lines<R: Reach>(self, base: Base<R>) -> (usize, usize) {
        let lines = match self.kind() {
            Kind::N3 => const { lines_of::<R>(Kind::N3) },
            _ => const { lines_of::<R>(Kind::N16) },
        };
        (base.start + self.0 as usize, lines)
    }

    /// The target's address.
    #[inline(always)]
    pub fn address<R>(self, base: Base<R>) -> usize {
        let tag = if self.is_leaf() {
            LEAF
        } else if self.is_dense() {
            FULL
        } else if self.is_shared() {
            PACK
        } else if self.is_direct() {
            DIRECT
        } else {
            INNER_ALIGN as u64 - 1
        };
        base.start + (self.0 & !tag) as usize
    }
}

/// A link to a node that lives as long as the guard under which the link was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Link<'g> {
    stored: StoredLink,
    alive: PhantomData<&'g ()>,
}

impl Deref for Link<'_> {
    type Target = StoredLink;

    #[inline(always)]
    fn deref(&self) -> &StoredLink {
        &self.stored
    }
}

impl<'g> Link<'g> {
    /// No link.
    pub const NONE: Link<'static> = Link {
        stored: StoredLink::NONE,
        alive: PhantomData,
    };

    /// The target, if it is a node of 256 without a prefix.
    #[inline(always)]
    pub fn direct(self) -> Option<Direct<'g>> {
        self.is_direct().then_some(Direct::new(InnerLink(self)))
    }

    /// The target, if it is an inner node of 3 or of 16: the same as [`inner`](Self::inner), in
    /// fewer steps.
    #[inline(always)]
    pub fn small(self) -> Option<InnerLink<'g>> {
        self.is_small().then_some(InnerLink(self))
    }

    /// The target, if it is a leaf.
    #[inline(always)]
    pub fn leaf<R>(self, base: Base<R>) -> Option<Leaf<'g>> {
        if !self.is_leaf() {
            return None;
        }
        let address = base.start + (self.0 - LEAF) as usize;
        // SAFETY: links to leaves are made of slots in which a leaf was written, and this link was
        // validated.
        Some(unsafe { Leaf::at(address) })
    }

    /// The target, if it is a pack.
    #[inline(always)]
    pub fn pack<R>(self, base: Base<R>) -> Option<Pack<'g>> {
        if !self.is_pack() {
            return None;
        }
        let address = base.start + (self.0 - PACK) as usize;
        // SAFETY: as for a leaf.
        Some(unsafe { Pack::at(address) })
    }

    /// The target, if it is a dense leaf.
    #[inline(always)]
    pub fn dense<R>(self, base: Base<R>) -> Option<DenseLeaf<'g>> {
        if !self.is_dense() {
            return None;
        }
        let address = base.start + (self.0 & !FULL) as usize;
        // SAFETY: as for a leaf.
        Some(unsafe { DenseLeaf::at(address) })
    }

    /// The target, if it is a pack or a dense leaf.
    #[inline(always)]
    pub fn shared<R>(self, base: Base<R>) -> Option<Terminal<'g>> {
        if !self.is_shared() {
            return None;
        }
        match self.pack(base) {
            Some(pack) => Some(Terminal::Pack(pack)),
            None => self.dense(base).map(Terminal::DenseLeaf),
        }
    }

    /// The target, if it is a leaf, a pack or a dense leaf.
    #[inline(always)]
    pub fn terminal<R>(self, base: Base<R>) -> Option<Terminal<'g>> {
        match self.leaf(base) {
            Some(leaf) => Some(Terminal::Leaf(leaf)),
            None => self.shared(base),
        }
    }

    /// The target, if it is an inner node.
    #[inline(always)]
    pub fn inner(self) -> Option<InnerLink<'g>> {
        // In the order of the callers' own tests, so that the compiler drops what they already
        // know.
        let is_inner = !self.is_none() && !self.is_leaf() && !self.is_shared();
        is_inner.then_some(InnerLink(self))
    }
}

/// A link to an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct InnerLink<'g>(Link<'g>);

impl<'g> Deref for InnerLink<'g> {
    type Target = Link<'g>;

    #[inline(always)]
    fn deref(&self) -> &Link<'g> {
        &self.0
    }
}

impl<'g> InnerLink<'g> {
    /// The target.
    #[inline(always)]
    pub(super) fn node<R: Reach>(self, base: Base<R>) -> &'g Node<R> {
        let address = self.address(base);
        // SAFETY: links to inner nodes are made of slots in which one was initialized, and this
        // link was validated. All fields are atomics.
        unsafe { &*std::ptr::with_exposed_provenance::<Versioned<_>>(address) }
    }

    /// The target, a node of 256 to which a link without a prefix leads.
    #[inline(always)]
    pub(super) fn direct_node<R: Reach>(self, base: Base<R>) -> &'g Node<R> {
        let address = self.direct_address(base);
        // SAFETY: as for `node`.
        unsafe { &*std::ptr::with_exposed_provenance::<Versioned<_>>(address) }
    }

    /// Starts an optimistic read of the target.
    ///
    /// # Errors
    /// The target was replaced or moved.
    #[inline(always)]
    pub fn read<R: Reach>(self, base: Base<R>) -> Result<Inner<'g, R>, Restart> {
        self.node(base).read().map(|node| Inner::new(self, node))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::super::reach::Near;
    use super::*;

    #[test]
    fn links_tell_what_they_lead_to() {
        let base = Base::<Near>::before(1 << 40);
        let near = Near(AtomicU32::new(0));
        assert!(near.load().is_none());
        for distance in [0, 64, 1 << 20, (1 << 34) - 256] {
            let address: usize = (1 << 40) + distance;
            for link in [
                StoredLink::to_dense(base, address.next_multiple_of(MOST_ALIGN), false),
                StoredLink::to_dense(base, address.next_multiple_of(MOST_ALIGN), true),
                StoredLink::to_pack(base, address),
            ] {
                let address = match link.is_dense() {
                    true => address.next_multiple_of(MOST_ALIGN),
                    false => address,
                };
                assert!(!link.is_leaf() && link.is_shared());
                assert_eq!(link.is_record(), link.is_pack());
                assert!(link.is_dense() != link.is_pack());
                assert_eq!(link.address(base), address);
                near.store(link);
                assert_eq!(near.load(), link);
            }
            for (kind, has_prefix) in [Kind::N3, Kind::N16, Kind::N48, Kind::N256]
                .into_iter()
                .flat_map(|kind| [(kind, false), (kind, true)])
            {
                let address = address.next_multiple_of(kind.align());
                let link = StoredLink::to_inner(base, address, kind, has_prefix);
                assert_eq!(link.is_direct(), kind == Kind::N256 && !has_prefix);
                let other = StoredLink::to_inner(base, address, kind, true);
                assert_eq!(link.with_prefix(), other);
                assert!(
                    !link.is_none() && !link.is_leaf() && !link.is_shared() && !link.is_record()
                );
                assert_eq!((link.kind(), link.address(base)), (kind, address));
                near.store(link);
                assert_eq!(near.load(), link);
            }
            let line = |address: usize| address / LINE;
            let pack = StoredLink::to_pack(base, address).record_lines(base);
            assert_eq!(pack.map(line), [line(address); 2]);
            for address in (address..address + LINE).step_by(8) {
                let link = StoredLink::to_leaf(base, address);
                let [first, last] = link.record_lines(base).map(line);
                assert_eq!([first, last], [line(address), line(address + 23)]);
                assert!(link.is_record() && link.is_leaf() && !link.is_dense());
                assert_eq!(link.address(base), address);
                near.store(link);
                assert_eq!(near.load(), link);
            }
        }
    }
}
