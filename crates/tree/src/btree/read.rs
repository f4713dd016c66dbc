//! Reading nodes: searches in them, with the memory charged for the lines they read, and
//! prefetches.

use std::cmp::Ordering;

use timberline_tier::{Memory, hint};

use super::node::{Body, HEADER, Lanes, Lines, Link, Share, WINDOW};
use super::payload::Payload;
use super::tree::{Tree, node_address};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Has the CPU fetch what a search in this node will read.
    #[inline(always)]
    pub fn prefetch(&self, link: Link) {
        hint::prefetch_lines(
            link.address(),
            (HEADER + 8 * Self::CAPACITY).div_ceil(hint::LINE),
        );
    }

    /// Has the CPU fetch all of a node, to read one entry after the other.
    #[inline(always)]
    pub fn prefetch_all(&self, link: Link) {
        hint::prefetch_lines(link.address(), Self::BYTES / hint::LINE);
    }

    /// Has the CPU fetch the lines of a leaf that a search will likely read.
    #[inline(always)]
    pub fn prefetch_near(&self, link: Link, lines: Lines) {
        let line = |line: usize| link.address() + line * hint::LINE;
        hint::prefetch_lines(line(0), 1);
        hint::prefetch_lines(line(lines.keys), Lines::KEYS);
        hint::prefetch_lines(line(lines.payloads), Lines::PAYLOADS);
    }

    /// As [`prefetch_near`](Self::prefetch_near), of an inner node.
    #[inline(always)]
    pub fn prefetch_inner(&self, link: Link, lines: Lines) {
        self.prefetch(link);
        let payloads = link.address() + lines.payloads * hint::LINE;
        hint::prefetch_lines(payloads, Lines::PAYLOADS);
    }

    /// A record's index in its leaf, or where it would have to go. Looks first where a key of this
    /// share should be.
    #[inline(always)]
    pub fn seek(
        &self,
        lanes: impl Lanes,
        body: &Body<WORDS>,
        key: u64,
        share: Share,
    ) -> Result<usize, usize> {
        if !Body::<WORDS>::GUESSED {
            self.charge_node(body);
            return body.find(lanes, key);
        }
        self.memory().charge_access(node_address(body), HEADER);
        let first = body.window_of(share);
        self.charge_window(body, first);
        if let Some(index) = body.find_near(lanes, key, first) {
            return Ok(index);
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
            self.prefetch(Link::from_word(node_address(body) as u64));
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

    /// Reads which child covers a key, and where it is. The memory is told of both.
    #[inline(always)]
    pub fn find_child(&self, lanes: impl Lanes, body: &Body<WORDS>, key: u64) -> (usize, Link) {
        self.charge_node(body);
        let index = body.child_for(lanes, key);
        self.charge_payload(body, index);
        (index, body.child(index))
    }

    /// Tells the memory that a payload is read in the same visit.
    #[inline(always)]
    pub fn charge_payload(&self, body: &Body<WORDS>, index: usize) {
        self.memory()
            .charge_lines(node_address(body) + Body::<WORDS>::payload_offset(index), 8);
    }
}
