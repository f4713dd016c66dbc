//! An inner node: what its lock guards.
//!
//! Entries are known by their [`Position`]: 0 for the key that ends where the node branches, then
//! the 256 bytes. So entries are ordered as the keys below them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use timberline_sync::Versioned;

use super::layout::{Node3, Node16, Node48, Node256, View};
use super::link::{Kind, Link, Reach};
use super::search;

/// An inner node behind its optimistic lock. What it holds beyond its head depends on its kind.
pub type Node<R> = Versioned<Body<R>>;

/// Where an entry stands in its node: [`AT_END`], or [`position`] of a byte.
pub type Position = u16;
/// The position of the key that ends here.
pub const AT_END: Position = 0;
/// The last position.
pub const LAST: Position = 256;

/// The position of what `key` has at `depth`: a byte, or its end.
#[inline(always)]
pub fn position(key: &[u8], depth: usize) -> Position {
    key.get(depth).map_or(AT_END, |&byte| 1 + u16::from(byte))
}

/// The head of what the lock guards.
#[repr(C)]
#[derive(Debug)]
pub struct Body<R> {
    /// Bytes between the parent's branch and this node's.
    prefix_len: AtomicU16,
    /// Entries (9 bits), whether one of them is at the end (1 bit), kind (2 bits).
    meta: AtomicU16,
    reach: PhantomData<R>,
}

const COUNT: u16 = (1 << 9) - 1;
const HAS_END: u16 = 1 << 9;
const KIND: u32 = 10;

/// Where a key goes on from a node.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The prefix differs after this many bytes.
    Differs(usize),
    /// It fits as far as the node knows.
    Goes {
        /// The depth at which the node branches.
        depth: usize,
        /// The entry there.
        at: Position,
        /// What hangs there, if anything.
        child: Link,
        /// Whether part of the prefix was taken on trust.
        trusted: bool,
    },
}

impl<R: Reach> Body<R> {
    #[inline(always)]
    fn layout<T>(&self) -> &T {
        let address = std::ptr::from_ref(self).addr() - size_of::<u64>();
        // SAFETY: callers name the layout of this node's kind, for which its slot was allocated.
        // All fields are atomics.
        unsafe { &*std::ptr::with_exposed_provenance::<T>(address) }
    }

    #[inline(always)]
    fn view(&self, kind: Kind) -> View<'_, R> {
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

    /// The first bytes of the prefix, the first one lowest; zeros behind those that there are.
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

    /// How many of the first `len` bytes of the prefix are those of a key from `depth` on. More are
    /// counted where they are alike, so ask whether there are fewer.
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

    /// Entries, the one at the end included.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.meta.load(Relaxed) & COUNT)
    }

    fn has_end(&self) -> bool {
        self.meta.load(Relaxed) & HAS_END != 0
    }

    /// Whether there is no room for an entry at this position, which is not there yet.
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

    /// Bytes of the prefix.
    #[inline(always)]
    pub fn prefix_len(&self) -> usize {
        usize::from(self.prefix_len.load(Relaxed))
    }

    /// As much of the prefix as is known, and whether that is all of it.
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

    /// The child on the way of a key that fits up to `depth` (or none), and the depth after the
    /// byte that leads there: 0 where the key has none, or leaves the way before. Part of the
    /// prefix may be taken on trust, which `trusts` is told.
    #[inline(always)]
    pub fn child_for(
        &self,
        kind: Kind,
        key: &[u8],
        mut depth: usize,
        trusts: &mut bool,
    ) -> (Link, usize) {
        let len = self.prefix_len();
        if len > 0 {
            let known = len.min(kind.known_prefix());
            if depth + len > key.len() || self.alike(kind, key, depth, known) < known {
                return (Link::NONE, 0);
            }
            *trusts |= known < len;
            depth += len;
        }
        match key.get(depth) {
            Some(&byte) => (self.child(kind, byte), depth + 1),
            None => (self.end(kind), 0),
        }
    }

    /// The same for those who want to change something.
    #[inline(always)]
    pub fn step(&self, kind: Kind, key: &[u8], depth: usize) -> Step {
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
            Link::NONE
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
    pub fn child(&self, kind: Kind, byte: u8) -> Link {
        // Most nodes of most paths are of this kind: a branch that is foreseen.
        if kind == Kind::N256 {
            return self.layout::<Node256<R>>().links[usize::from(byte)].load();
        }
        let meta = self.meta.load(Relaxed);
        let (count, end) = (u32::from(meta & COUNT), u32::from(meta & HAS_END != 0));
        // Lanes in use, without that of the end, which is the first.
        let valid = |lanes: u32| lanes & ((1u32 << count.min(16)) - 1) & !end;
        match kind {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                match valid(search::lanes_of_few(&node.keys, &node.fifth, byte)) {
                    0 => Link::NONE,
                    lanes => node.links[(lanes.trailing_zeros() as usize).min(2)].load(),
                }
            }
            Kind::N16 => {
                let node: &Node16<R> = self.layout();
                match valid(search::lanes_of(&node.keys, byte)) {
                    0 => Link::NONE,
                    lanes => node.links[(lanes.trailing_zeros() as usize).min(15)].load(),
                }
            }
            Kind::N48 | Kind::N256 => self.view(kind).wide(byte.into()),
        }
    }

    /// The leaf of the key that ends here.
    pub fn end(&self, kind: Kind) -> Link {
        match self.view(kind) {
            View::PackedRecords(_, links) if self.has_end() => links[0].load(),
            wide => wide.end(),
        }
    }

    /// The entry at a position.
    pub fn get(&self, kind: Kind, at: Position) -> Link {
        match at.checked_sub(1) {
            None => self.end(kind),
            Some(byte) => self.child(kind, byte as u8),
        }
    }

    /// Visits entries in order, from `from` on, until `visit` returns false.
    #[inline(always)]
    pub fn each(&self, from: Position, mut visit: impl FnMut(Position, Link) -> bool) {
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

    /// Takes links in order, from `from` on, until `links` is full. Returns how many, and where the
    /// next is if there is one.
    #[inline(always)]
    pub fn take(
        &self,
        kind: Kind,
        from: Position,
        links: &mut [Link],
    ) -> (usize, Option<Position>) {
        match self.view(kind) {
            View::PackedRecords(keys, cells) => {
                let (end, mut count) = (self.has_end(), 0);
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

    /// The same where each byte has a place: `group` tells which of sixteen bytes have a child, and
    /// how to come to those.
    #[inline(always)]
    fn take_wide<F: Fn(usize) -> Link>(
        end: Link,
        from: Position,
        links: &mut [Link],
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
        let mut passed = !0 << (first % 16);
        for start in (first & !15..256).step_by(16) {
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
        }
        (count, None)
    }

    /// The links of a node of three, and their number.
    #[inline(always)]
    pub fn three(&self) -> ([Link; 3], usize) {
        let node: &Node3<R> = self.layout();
        (node.links.each_ref().map(R::load), self.count().min(3))
    }

    #[inline(always)]
    fn show(at: Position, link: Link, visit: &mut impl FnMut(Position, Link) -> bool) -> bool {
        link.is_none() || visit(at, link)
    }

    /// Visits entries against the order, from `from` down, until `visit` returns false.
    #[inline(always)]
    pub fn each_back(&self, from: Position, mut visit: impl FnMut(Position, Link) -> bool) {
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

    /// The same as `take`, against the order, from `from` down.
    pub fn take_back(&self, from: Position, links: &mut [Link]) -> (usize, Option<Position>) {
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
    fn lane_position(keys: &[AtomicU8], lane: usize, end: bool) -> Position {
        if end && lane == 0 {
            AT_END
        } else {
            1 + u16::from(keys[lane].load(Relaxed))
        }
    }

    /// The first entry.
    pub fn first(&self) -> Link {
        let mut first = [Link::NONE];
        self.take(self.kind(), AT_END, &mut first);
        first[0]
    }

    // What follows writes, and is reached through an `Exclusive` only.

    /// Makes this a node without entries.
    pub fn reset(&self, kind: Kind, prefix: &[u8]) {
        self.meta.store((kind as u16) << KIND, Relaxed);
        self.set_prefix(prefix.len(), prefix.iter().copied());
        match self.view(kind) {
            View::PackedRecords(..) => {}
            View::Indexed(node) => {
                node.end.store(Link::NONE);
                node.index.iter().for_each(|slot| slot.store(0, Relaxed));
                node.links.iter().for_each(|link| link.store(Link::NONE));
            }
            View::Full(node) => {
                node.end.store(Link::NONE);
                node.links.iter().for_each(|link| link.store(Link::NONE));
            }
        }
    }

    /// Changes the prefix, of which at least as many bytes are given as the kind keeps.
    pub fn set_prefix(&self, len: usize, bytes: impl Iterator<Item = u8>) {
        self.prefix_len.store(len as u16, Relaxed);
        let mut first = [0; 16];
        for (to, byte) in first.iter_mut().zip(bytes) {
            *to = byte;
        }
        let [first, second] = [0, 8].map(|from| word_at(&first, from));
        let in_words = |cells: &[AtomicU64; 2]| {
            cells[0].store(first, Relaxed);
            cells[1].store(second, Relaxed);
        };
        match self.kind() {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                node.prefix.store(first as u32, Relaxed);
                node.fifth.store((first >> 32) as u8, Relaxed);
            }
            Kind::N16 => {
                let node: &Node16<R> = self.layout();
                node.prefix.store(first as u32, Relaxed);
            }
            Kind::N48 => in_words(&self.layout::<Node48<R>>().prefix),
            Kind::N256 => in_words(&self.layout::<Node256<R>>().prefix),
        }
    }

    /// Makes this a copy of a node of the same kind.
    pub fn copy_from(&self, other: &Self) {
        let (prefix, _) = other.prefix();
        self.reset(other.kind(), &[]);
        self.set_prefix(other.prefix_len(), prefix.iter().copied());
        self.take_over(other);
    }

    /// Adds all entries of another node.
    pub fn take_over(&self, other: &Self) {
        other.each(AT_END, |at, link| {
            self.insert(at, link);
            true
        });
    }

    /// Adds an entry that is not there; there is room.
    pub fn insert(&self, at: Position, link: Link) {
        debug_assert!(!self.is_full_for(at));
        let kind = self.kind();
        match self.view(kind) {
            View::PackedRecords(keys, links) => {
                let (count, end) = (self.count(), self.has_end());
                let lane = (0..count)
                    .find(|&lane| Self::lane_position(keys, lane, end) > at)
                    .unwrap_or(count);
                for from in (lane..count).rev() {
                    keys[from + 1].store(keys[from].load(Relaxed), Relaxed);
                    links[from + 1].store(links[from].load());
                }
                keys[lane].store(at.saturating_sub(1) as u8, Relaxed);
                links[lane].store(link);
            }
            View::Indexed(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => {
                    let slot = node.links.iter().position(|link| link.load().is_none());
                    let slot = slot.expect("there is room");
                    node.links[slot].store(link);
                    node.index[usize::from(byte)].store(slot as u8 + 1, Relaxed);
                }
            },
            View::Full(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => node.links[usize::from(byte)].store(link),
            },
        }
        let end = if at == AT_END { HAS_END } else { 0 };
        let meta = self.meta.load(Relaxed);
        self.meta.store((meta + 1) | end, Relaxed);
    }

    /// Replaces the link of an entry that is there.
    pub fn replace(&self, at: Position, link: Link) {
        match self.view(self.kind()) {
            View::PackedRecords(keys, links) => {
                let lane = self.lane(keys, at);
                links[lane].store(link);
            }
            View::Indexed(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => {
                    let slot = node.index[usize::from(byte)].load(Relaxed) - 1;
                    node.links[usize::from(slot)].store(link);
                }
            },
            View::Full(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => node.links[usize::from(byte)].store(link),
            },
        }
    }

    /// Removes an entry that is there.
    pub fn remove(&self, at: Position) {
        match self.view(self.kind()) {
            View::PackedRecords(keys, links) => {
                let count = self.count();
                for lane in self.lane(keys, at)..count - 1 {
                    keys[lane].store(keys[lane + 1].load(Relaxed), Relaxed);
                    links[lane].store(links[lane + 1].load());
                }
            }
            View::Indexed(node) => {
                self.replace(at, Link::NONE);
                if let Some(byte) = at.checked_sub(1) {
                    node.index[usize::from(byte)].store(0, Relaxed);
                }
            }
            View::Full(_) => self.replace(at, Link::NONE),
        }
        let end = if at == AT_END { HAS_END } else { 0 };
        let meta = self.meta.load(Relaxed);
        self.meta.store((meta - 1) & !end, Relaxed);
    }

    fn lane(&self, keys: &[AtomicU8], at: Position) -> usize {
        let end = self.has_end();
        (0..self.count())
            .find(|&lane| Self::lane_position(keys, lane, end) == at)
            .expect("the entry is there")
    }
}

#[inline(always)]
fn words_of(cells: &[AtomicU64; 2]) -> [u64; 2] {
    cells.each_ref().map(|cell| cell.load(Relaxed))
}

/// How many of their lowest bytes two words share.
#[inline(always)]
fn alike(one: u64, two: u64) -> usize {
    (one ^ two).trailing_zeros() as usize / 8
}

/// Up to eight bytes of a key from `depth` on, the first lowest; zeros behind its end.
#[inline(always)]
fn word_at(key: &[u8], depth: usize) -> u64 {
    // A key of a word needs no more than a shift.
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
