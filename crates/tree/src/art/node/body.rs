//! The body of an inner node: the part that its lock guards.
//!
//! A [`Position`] identifies an entry: 0 for the key that ends where the node branches, then the
//! 256 bytes. So entries are in the order of the keys below them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use timberline_sync::Versioned;

use super::layout::{Node3, Node16, Node48, Node256, View};
use super::link::{Kind, StoredLink};
use super::reach::Reach;
use super::search;

/// An inner node behind its optimistic lock. The arrays after its head depend on its kind.
pub type Node<R> = Versioned<Body<R>>;

/// The position of an entry: [`AT_END`], or [`position`] of a byte.
pub type Position = u16;
/// The position of the key that ends here.
pub const AT_END: Position = 0;
/// The last position.
pub const LAST: Position = 256;

/// The position for the byte of `key` at `depth`, or for its end.
#[inline(always)]
pub fn position(key: &[u8], depth: usize) -> Position {
    key.get(depth).map_or(AT_END, |&byte| 1 + u16::from(byte))
}

/// The head of the guarded part.
#[repr(C)]
#[derive(Debug)]
pub struct Body<R> {
    /// Bytes between the parent's branch and this node's.
    pub(super) prefix_len: AtomicU16,
    /// Entries (9 bits), whether one of them is at the end (1 bit), kind (2 bits).
    pub(super) meta: AtomicU16,
    reach: PhantomData<R>,
}

const COUNT: u16 = (1 << 9) - 1;
pub(super) const HAS_END: u16 = 1 << 9;
pub(super) const KIND: u32 = 10;

/// The outcome of comparing a key with a node.
#[derive(Clone, Copy, Debug)]
pub enum Step<L> {
    /// The prefix differs after this many bytes.
    Differs(usize),
    /// The known part of the prefix fits.
    Goes {
        /// The depth at which the node branches.
        depth: usize,
        /// The entry there.
        at: Position,
        /// The child there, if there is one.
        child: L,
        /// Whether part of the prefix was not compared.
        trusted: bool,
    },
}

impl<L> Step<L> {
    #[inline(always)]
    pub(super) fn map<T>(self, map: impl FnOnce(L) -> T) -> Step<T> {
        match self {
            Step::Differs(same) => Step::Differs(same),
            Step::Goes {
                depth,
                at,
                child,
                trusted,
            } => Step::Goes {
                depth,
                at,
                child: map(child),
                trusted,
            },
        }
    }
}

impl<R: Reach> Body<R> {
    #[inline(always)]
    pub(super) fn layout<T>(&self) -> &T {
        let address = std::ptr::from_ref(self).addr() - size_of::<u64>();
        // SAFETY: callers name the layout of this node's kind, for which its slot was allocated.
        // All fields are atomics.
        unsafe { &*std::ptr::with_exposed_provenance::<T>(address) }
    }

    #[inline(always)]
    pub(super) fn view(&self, kind: Kind) -> View<'_, R> {
        match kind {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                View::PackedRecords(&node.keys, &node.links)
            }
            Kind::N16 => {
                let node: &Node16<R> = self.layout();
                View::PackedRecords(&node.keys, &node.links)
            }
            Kind::N48 => View::Indexed(self.layout()),
            Kind::N256 => View::Full(self.layout()),
        }
    }

    /// The first bytes of the prefix, the first one lowest, followed by zeros.
    #[inline(always)]
    fn known(&self, kind: Kind) -> [u64; 2] {
        match kind {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                let fifth = u64::from(node.fifth.load(Relaxed));
                [u64::from(node.prefix.load(Relaxed)) | fifth << 32, 0]
            }
            Kind::N16 => [self.layout::<Node16<R>>().prefix.load(Relaxed).into(), 0],
            Kind::N48 => words_of(&self.layout::<Node48<R>>().prefix),
            Kind::N256 => words_of(&self.layout::<Node256<R>>().prefix),
        }
    }

    /// How many of the first `len` bytes of the prefix equal the key's from `depth` on. May count
    /// equal bytes beyond `len`, so only test whether the result is less.
    #[inline(always)]
    fn alike(&self, kind: Kind, key: &[u8], depth: usize, len: usize) -> usize {
        let [first, second] = self.known(kind);
        let same = alike(first, word_at(key, depth));
        if same < 8 || len <= 8 {
            return same;
        }
        8 + alike(second, word_at(key, depth + 8))
    }

    /// The kind of node; never changes.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        Kind::of_bits(u64::from(self.meta.load(Relaxed) >> KIND))
    }

    /// The number of entries, including the one at the end.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.meta.load(Relaxed) & COUNT)
    }

    pub(super) fn has_end(&self) -> bool {
        self.meta.load(Relaxed) & HAS_END != 0
    }

    /// Whether an entry at this position, which is not there yet, needs a larger node.
    #[inline(always)]
    pub fn is_full_for(&self, at: Position) -> bool {
        let kind = self.kind();
        match kind {
            Kind::N3 | Kind::N16 => self.count() >= kind.capacity(),
            Kind::N48 => {
                at != AT_END && self.count() - usize::from(self.has_end()) >= kind.capacity()
            }
            Kind::N256 => false,
        }
    }

    /// The length of the prefix, in bytes.
    #[inline(always)]
    pub fn prefix_len(&self) -> usize {
        usize::from(self.prefix_len.load(Relaxed))
    }

    /// The known part of the prefix, and whether it is the whole.
    pub fn prefix(&self) -> (Prefix, bool) {
        let (kind, len) = (self.kind(), self.prefix_len());
        let mut prefix = Prefix {
            bytes: [0; 16],
            len: len.min(kind.known_prefix()),
        };
        for (to, from) in prefix.bytes.chunks_exact_mut(8).zip(self.known(kind)) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        (prefix, len <= kind.known_prefix())
    }

    /// The child for a key that fits up to `depth` (or none); the depth after the byte that leads
    /// there, 0 if the key has no such child or differs from the prefix; and whether part of the
    /// prefix was not compared.
    #[inline(always)]
    pub(super) fn child_for(
        &self,
        kind: Kind,
        key: &[u8],
        mut depth: usize,
    ) -> (StoredLink, usize, bool) {
        let (len, mut trusts) = (self.prefix_len(), false);
        if len > 0 {
            let known = len.min(kind.known_prefix());
            if depth + len > key.len() || self.alike(kind, key, depth, known) < known {
                return (StoredLink::NONE, 0, false);
            }
            trusts = known < len;
            depth += len;
        }
        match key.get(depth) {
            Some(&byte) => (self.child(kind, byte), depth + 1, trusts),
            None => (self.end(kind), 0, trusts),
        }
    }

    /// The same, for writers.
    #[inline(always)]
    pub(super) fn step(&self, kind: Kind, key: &[u8], depth: usize) -> Step<StoredLink> {
        let len = self.prefix_len();
        let known = len.min(kind.known_prefix());
        if len > 0 {
            let same = self.alike(kind, key, depth, known);
            let same = same.min(key.len().saturating_sub(depth));
            if same < known {
                return Step::Differs(same);
            }
        }
        let at = position(key, depth + len);
        let child = if depth + len > key.len() {
            StoredLink::NONE
        } else {
            self.get(kind, at)
        };
        Step::Goes {
            depth: depth + len,
            at,
            child,
            trusted: len > known,
        }
    }

    /// The child for a byte.
    #[inline(always)]
    pub(super) fn child(&self, kind: Kind, byte: u8) -> StoredLink {
        // Most nodes on most paths are of this kind, so the branch is well predicted.
        if kind == Kind::N256 {
            return self.layout::<Node256<R>>().links[usize::from(byte)].load();
        }
        let meta = self.meta.load(Relaxed);
        let (count, end) = (u32::from(meta & COUNT), u32::from(meta & HAS_END != 0));
        // The lanes in use, without the first, which is the end's.
        let valid = |lanes: u32| lanes & 1u32.wrapping_shl(count).wrapping_sub(1) & !end;
        match kind {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                match valid(search::lanes_of_few(&node.keys, &node.fifth, byte)) {
                    0 => StoredLink::NONE,
                    lanes => node.links[(lanes.trailing_zeros() as usize).min(2)].load(),
                }
            }
            Kind::N16 => {
                let node: &Node16<R> = self.layout();
                match valid(search::lanes_of(&node.keys, byte)) {
                    0 => StoredLink::NONE,
                    lanes => node.links[lanes.trailing_zeros() as usize % 16].load(),
                }
            }
            Kind::N48 | Kind::N256 => self.view(kind).wide(byte.into()),
        }
    }

    /// The leaf of the key that ends here.
    pub(super) fn end(&self, kind: Kind) -> StoredLink {
        match self.view(kind) {
            View::PackedRecords(_, links) if self.has_end() => links[0].load(),
            wide => wide.end(),
        }
    }

    /// The entry at a position.
    #[inline(always)]
    pub(super) fn get(&self, kind: Kind, at: Position) -> StoredLink {
        match at.checked_sub(1) {
            None => self.end(kind),
            Some(byte) => self.child(kind, byte as u8),
        }
    }

    /// Calls `visit` with entries in order, from `from` on, until it returns false.
    #[inline(always)]
    pub fn each(&self, from: Position, mut visit: impl FnMut(Position, StoredLink) -> bool) {
        let view = self.view(self.kind());
        if let View::PackedRecords(keys, links) = view {
            let end = self.has_end();
            for (lane, link) in links.iter().enumerate().take(self.count()) {
                let at = Self::lane_position(keys, lane, end);
                if at >= from && !visit(at, link.load()) {
                    return;
                }
            }
            return;
        }
        let first = usize::from(from.saturating_sub(1));
        if from == AT_END && !Self::show(AT_END, view.end(), &mut visit) {
            return;
        }
        for byte in first..256 {
            if !Self::show(1 + byte as Position, view.wide(byte), &mut visit) {
                return;
            }
        }
    }

    /// Takes links in order, from `from` on, until `links` is full. Returns their number and the
    /// position of the next, if there is one.
    #[inline(always)]
    pub(super) fn take(
        &self,
        kind: Kind,
        from: Position,
        links: &mut [StoredLink],
    ) -> (usize, Option<Position>) {
        match self.view(kind) {
            View::PackedRecords(keys, cells) => {
                let (end, mut count) = (self.has_end(), 0);
                if from == AT_END {
                    let all = self.count().min(cells.len());
                    for (place, cell) in links.iter_mut().zip(&cells[..all]) {
                        *place = cell.load();
                    }
                    let next = links.len();
                    let rest = (next < all).then(|| Self::lane_position(keys, next, end));
                    return (all.min(next), rest);
                }
                for (lane, cell) in cells.iter().enumerate().take(self.count()) {
                    let at = Self::lane_position(keys, lane, end);
                    if at < from {
                        continue;
                    }
                    let Some(place) = links.get_mut(count) else {
                        return (count, Some(at));
                    };
                    *place = cell.load();
                    count += 1;
                }
                (count, None)
            }
            View::Indexed(node) => Self::take_wide(node.end.load(), from, links, |group| {
                let view = View::Indexed(node);
                (view.occupied(group), move |byte| view.wide(byte))
            }),
            View::Full(node) => Self::take_wide(node.end.load(), from, links, |group| {
                let view = View::Full(node);
                (view.occupied(group), move |byte| view.wide(byte))
            }),
        }
    }

    /// The same for nodes with a place for each byte: `group` tells which of sixteen bytes have a
    /// child, and how to load them.
    #[inline(always)]
    fn take_wide<F: Fn(usize) -> StoredLink>(
        end: StoredLink,
        from: Position,
        links: &mut [StoredLink],
        group: impl Fn(usize) -> (u32, F),
    ) -> (usize, Option<Position>) {
        let mut count = 0;
        if from == AT_END && !end.is_none() {
            let Some(place) = links.first_mut() else {
                return (0, Some(from));
            };
            *place = end;
            count = 1;
        }
        let first = usize::from(from.saturating_sub(1)).min(255);
        let mut start = first & !15;
        let mut passed = !0 << (first % 16);
        while start < 256 {
            let (occupied, child) = group(start / 16);
            let mut occupied = occupied & passed;
            passed = !0;
            while occupied != 0 {
                let byte = start + occupied.trailing_zeros() as usize % 16;
                let Some(place) = links.get_mut(count) else {
                    return (count, Some(1 + byte as Position));
                };
                *place = child(byte);
                count += 1;
                occupied &= occupied - 1;
            }
            start += 16;
        }
        (count, None)
    }

    #[inline(always)]
    fn show(
        at: Position,
        link: StoredLink,
        visit: &mut impl FnMut(Position, StoredLink) -> bool,
    ) -> bool {
        link.is_none() || visit(at, link)
    }

    /// Calls `visit` with entries in descending order, from `from` down, until it returns false.
    #[inline(always)]
    pub fn each_back(&self, from: Position, mut visit: impl FnMut(Position, StoredLink) -> bool) {
        let view = self.view(self.kind());
        if let View::PackedRecords(keys, links) = view {
            let end = self.has_end();
            for lane in (0..self.count().min(links.len())).rev() {
                let at = Self::lane_position(keys, lane, end);
                if at <= from && !visit(at, links[lane].load()) {
                    return;
                }
            }
            return;
        }
        for byte in (0..usize::from(from)).rev() {
            if !Self::show(1 + byte as Position, view.wide(byte), &mut visit) {
                return;
            }
        }
        Self::show(AT_END, view.end(), &mut visit);
    }

    /// The same as `take`, in descending order, from `from` down.
    pub(super) fn take_back(
        &self,
        from: Position,
        links: &mut [StoredLink],
    ) -> (usize, Option<Position>) {
        let (mut count, mut rest) = (0, None);
        self.each_back(from, |at, link| {
            let Some(place) = links.get_mut(count) else {
                rest = Some(at);
                return false;
            };
            *place = link;
            count += 1;
            true
        });
        (count, rest)
    }

    #[inline(always)]
    pub(super) fn lane_position(keys: &[AtomicU8], lane: usize, end: bool) -> Position {
        if end && lane == 0 {
            AT_END
        } else {
            1 + u16::from(keys[lane].load(Relaxed))
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> StoredLink {
        let mut first = [StoredLink::NONE];
        self.take(self.kind(), AT_END, &mut first);
        first[0]
    }
}

#[inline(always)]
fn words_of(cells: &[AtomicU64; 2]) -> [u64; 2] {
    // Not `map` of an array: the compiler turns it into calls.
    [cells[0].load(Relaxed), cells[1].load(Relaxed)]
}

/// The number of lowest bytes that two words have in common.
#[inline(always)]
fn alike(one: u64, two: u64) -> usize {
    (one ^ two).trailing_zeros() as usize / 8
}

/// Up to eight bytes of a key from `depth` on, the first lowest, followed by zeros.
#[inline(always)]
pub fn word_at(key: &[u8], depth: usize) -> u64 {
    // For the key of a word, a shift is enough.
    if let Ok(word) = key.try_into() {
        let shift = 8 * depth as u32;
        return u64::from_le_bytes(word).checked_shr(shift).unwrap_or(0);
    }
    if let Some(&word) = key.get(depth..).and_then(<[u8]>::first_chunk) {
        return u64::from_le_bytes(word);
    }
    let mut word = [0; 8];
    let rest = key.get(depth..).unwrap_or(&[]);
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// The first bytes of a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    bytes: [u8; 16],
    len: usize,
}

impl std::ops::Deref for Prefix {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
