//! Reading nodes: searches in them, with the memory charged for the lines they read, and
//! prefetches.

use std::cmp::Ordering;

use timberline_sync::Restart;
use timberline_tier::{Memory, hint};

use super::node::{Body, HEADER, Hit, Lanes, Lines, Link, Share, View, WINDOW};
use super::payload::Payload;
use super::tree::{Tree, node_address};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Has the CPU fetch what a search in this node will read.
    #[inline(always)]
    pub fn prefetch(&self, node: usize) {
        hint::prefetch_lines(node, (HEADER + 8 * Self::CAPACITY).div_ceil(hint::LINE));
    }

    /// Has the CPU fetch all of a node, to read one entry after the other.
    #[inline(always)]
    pub fn prefetch_all(&self, node: usize) {
        hint::prefetch_lines(node, Self::BYTES / hint::LINE);
    }

    /// Has the CPU fetch the lines of a leaf that a search will likely read.
    #[inline(always)]
    pub fn prefetch_near(&self, node: usize, lines: Lines) {
        let line = |line: usize| node + line * hint::LINE;
        hint::prefetch_lines(line(0), 1);
        hint::prefetch_lines(line(lines.keys), Lines::KEYS);
        hint::prefetch_lines(line(lines.payloads), Lines::PAYLOADS);
    }

    /// As [`prefetch_near`](Self::prefetch_near), of an inner node.
    #[inline(always)]
    pub fn prefetch_inner(&self, node: usize, lines: Lines) {
        self.prefetch(node);
        let payloads = node + lines.payloads * hint::LINE;
        hint::prefetch_lines(payloads, Lines::PAYLOADS);
    }

    /// A record's index in its leaf, or where it would have to go. Looks first where a key of this
    /// share should be.
    #[inline(always)]
    pub fn seek<'b>(
        &self,
        lanes: impl Lanes,
        body: &'b Body<WORDS>,
        key: u64,
        share: Share,
    ) -> Result<Hit<'b>, usize> {
        if !Body::<WORDS>::GUESSED {
            self.charge_node(body);
            return body.find(lanes, key);
        }
        self.memory().charge_access(node_address(body), HEADER);
        self.seek_from(lanes, body, key, body.window_of(share))
    }

    /// As [`seek`](Self::seek), in the window from `first` on.
    #[inline(always)]
    pub fn seek_from<'b>(
        &self,
        lanes: impl Lanes,
        body: &'b Body<WORDS>,
        key: u64,
        first: usize,
    ) -> Result<Hit<'b>, usize> {
        self.charge_window(body, first);
        if let Some(hit) = body.find_near(lanes, key, first) {
            return Ok(hit);
        }
        let index = match body.rank_near(lanes, key, first) {
            Ok(index) => index,
            Err(Ordering::Less) => self.rank_far(body, key, first.saturating_sub(WINDOW)),
            Err(_) => self.rank_far(body, key, first + WINDOW),
        };
        body.entry_at(index, key)
    }

    /// The rank of a key that is not where it was expected: next to that, or anywhere.
    // Returns one word: a call that returns two is never inlined into code for another CPU, nor
    // what contains it.
    #[cold]
    fn rank_far(&self, body: &Body<WORDS>, key: u64, next: usize) -> usize {
        self.charge_window(body, next);
        body.rank_near(self.search, key, next).unwrap_or_else(|_| {
            // A wait of its own: none of these lines was asked for.
            self.prefetch(node_address(body));
            self.charge_node(body);
            body.rank(self.search, key)
        })
    }

    /// Tells the memory that a window of keys is read in the same visit.
    #[inline(always)]
    fn charge_window(&self, body: &Body<WORDS>, first: usize) {
        self.memory()
            .charge_lines(node_address(body) + HEADER + 8 * first, 8 * WINDOW);
    }

    /// Tells the memory that a node's header and keys are read.
    #[inline(always)]
    pub fn charge_node(&self, body: &Body<WORDS>) {
        if M::CHARGES {
            self.memory()
                .charge_access(node_address(body), HEADER + 8 * body.count());
        }
    }

    /// The child that covers a key. The memory is told that its parent is read.
    #[inline(always)]
    pub fn find_child<'g>(
        &self,
        lanes: impl Lanes,
        node: &View<'g, WORDS>,
        key: u64,
    ) -> Result<Link<'g, WORDS>, Restart> {
        let (link, ()) = node.child_for(lanes, key, |body, index| {
            self.charge_child(body, index);
        })?;
        Ok(link)
    }

    /// Tells the memory that an inner node is searched, and which child it is.
    #[inline(always)]
    pub fn charge_child(&self, body: &Body<WORDS>, index: usize) {
        self.charge_node(body);
        self.charge_payload(body, index);
    }

    /// Tells the memory that a payload is read in the same visit.
    #[inline(always)]
    pub fn charge_payload(&self, body: &Body<WORDS>, index: usize) {
        self.memory()
            .charge_lines(node_address(body) + Body::<WORDS>::payload_offset(index), 8);
    }
}
