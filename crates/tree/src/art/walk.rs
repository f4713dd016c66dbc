//! Walking leaves in the order of their keys, forward or backward.
//!
//! A walker keeps the path to where it is: nodes as of a version, and where in each it goes on. It takes a few links at a
//! time out of a node, in one validated read, and asks for all of what they lead to at once, so that the misses of
//! neighbours overlap. Inner nodes are entered only while the node that led there is unchanged; when it is not, the
//! walker starts over behind the last leaf that it gave out.
//!
//! So it gives out leaves that were linked at some moment of the walk, in strict order, and each record that is there throughout
//! exactly once, whatever splits, merges or moves meanwhile.

use std::cmp::Ordering::{Equal, Greater, Less};

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_tier::Memory;

use super::node::{AT_END, LAST, Leaf, Link, Position, Reach, leaf_bytes, position};
use super::tree::{Inner, Parent, Root, Tree, common};

/// Links taken out of a node at once.
const AT_ONCE: usize = 16;

/// Which way to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Forward,
    Backward,
}

/// Where to begin: at a key, or next to it in the walker's direction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'k> {
    Everything,
    At(&'k [u8]),
    After(&'k [u8]),
}

impl<'k> Start<'k> {
    fn key(self) -> Option<&'k [u8]> {
        match self {
            Start::Everything => None,
            Start::At(key) | Start::After(key) => Some(key),
        }
    }

    /// Whether a walk from here leaves out a leaf with this key.
    fn leaves_out(self, way: Way, key: &[u8]) -> bool {
        let order = match self.key() {
            None => return false,
            Some(from) if way == Way::Forward => key.cmp(from),
            Some(from) => from.cmp(key),
        };
        match self {
            Start::After(_) => order != Greater,
            _ => order == Less,
        }
    }
}

struct Frame<'g, R> {
    inner: Inner<'g, R>,
    links: [Link; AT_ONCE],
    taken: u8,
    count: u8,
    /// Where the next links come from; `None` after the last.
    next: Option<Position>,
}

/// A walk over the leaves.
pub(super) struct Walker<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard,
    way: Way,
    /// Whether slow nodes, and all below them, are passed over.
    fast_only: bool,
    /// Links worth taking at once.
    ahead: usize,
    from: Start<'g>,
    /// The last leaf given out; its key is not read unless the walk starts over.
    last: Option<Leaf<'g>>,
    frames: Vec<Frame<'g, R>>,
    started: bool,
}

impl<'g, M: Memory, R: Reach> Walker<'g, M, R> {
    pub fn new(tree: &'g Tree<M, R>, way: Way, from: Start<'g>, guard: &'g Guard) -> Self {
        Walker {
            tree,
            guard,
            way,
            fast_only: false,
            ahead: AT_ONCE,
            from,
            last: None,
            frames: Vec::with_capacity(12),
            started: false,
        }
    }

    /// Passes over what is slow, and what is below it.
    pub fn fast_only(mut self) -> Self {
        self.fast_only = true;
        self
    }

    /// No more than so many leaves are wanted: fewer are asked for ahead.
    pub fn at_most(mut self, leaves: usize) -> Self {
        self.ahead = leaves.clamp(1, AT_ONCE);
        self
    }

    /// The next leaf.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Leaf<'g>> {
        // Mostly it is among those that were taken out of the last node.
        if let Some(frame) = self.frames.last_mut()
            && frame.taken < frame.count
            && let Some(&link) = frame.links.get(usize::from(frame.taken))
            && link.is_leaf()
        {
            frame.taken += 1;
            self.last = Some(self.tree.leaf_at(link, self.guard));
            return self.last;
        }
        self.search()
    }

    #[inline(never)]
    fn search(&mut self) -> Option<Leaf<'g>> {
        let mut tries = 0;
        loop {
            match self.advance() {
                Ok(leaf) => {
                    self.last = leaf.or(self.last);
                    return leaf;
                }
                Err(Restart) => {
                    pause(tries);
                    tries += 1;
                    self.started = false;
                    self.frames.clear();
                    if let Some(last) = self.last {
                        self.from = Start::After(last.key());
                    }
                }
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Leaf<'g>>, Restart> {
        if !self.started {
            let first = self.seek()?;
            self.started = true;
            if first.is_some() {
                return Ok(first);
            }
        }
        while let Some(frame) = self.frames.last_mut() {
            if frame.taken < frame.count {
                let link = frame.links[usize::from(frame.taken)];
                frame.taken += 1;
                if link.is_leaf() {
                    return Ok(Some(self.tree.leaf_at(link, self.guard)));
                }
                let parent = Parent::Node(frame.inner, AT_END);
                let inner = self.tree.enter(link, &parent, self.guard)?;
                let next = Some(self.begin());
                self.push(inner, next);
            } else if let Some(next) = frame.next {
                self.take(next)?;
            } else {
                self.frames.pop();
            }
        }
        Ok(None)
    }

    fn begin(&self) -> Position {
        match self.way {
            Way::Forward => AT_END,
            Way::Backward => LAST,
        }
    }

    /// The position after this one, if there is one.
    fn after(&self, at: Position) -> Option<Position> {
        match self.way {
            Way::Forward => (at < LAST).then_some(at + 1),
            Way::Backward => at.checked_sub(1),
        }
    }

    /// Goes down to a node, of which nothing is taken yet.
    fn push(&mut self, inner: Inner<'g, R>, next: Option<Position>) {
        self.frames.push(Frame {
            inner,
            links: [Link::NONE; AT_ONCE],
            taken: 0,
            count: 0,
            next,
        });
    }

    /// Takes the next links out of the node that the walk is at, and asks for what they lead to.
    fn take(&mut self, from: Position) -> Result<(), Restart> {
        let Self {
            tree, way, ahead, ..
        } = *self;
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        let fast_only = self.fast_only;
        let (links, mut count, mut rest) = (&mut frame.links, 0, None);
        let take = |at: Position, link: Link| {
            if fast_only && !tree.is_fast(link) {
                return true;
            }
            if count == ahead {
                rest = Some(at);
                return false;
            }
            links[count] = link;
            count += 1;
            true
        };
        let link = frame.inner.link;
        let bytes = link.kind().bytes::<R>();
        tree.memory().visit(link.address(tree.base), bytes);
        frame.inner.node.get(|body| match way {
            Way::Forward => body.each(from, take),
            Way::Backward => body.each_back(from, take),
        })?;
        (frame.taken, frame.count, frame.next) = (0, count as u8, rest);
        for &link in &frame.links[..count] {
            Self::ask_for(tree, link);
        }
        Ok(())
    }

    fn ask_for(tree: &Tree<M, R>, link: Link) {
        let address = link.address(tree.base);
        let bytes = if link.is_leaf() {
            leaf_bytes(8)
        } else {
            link.kind().bytes::<R>().min(128)
        };
        tree.memory().prefetch(address, bytes);
    }

    /// Builds the path to where the walk begins. Returns the leaf there, if the path ends at one that is not left out.
    fn seek(&mut self) -> Result<Option<Leaf<'g>>, Restart> {
        let root = self.tree.root.read()?;
        let mut link = root.get(Root::link)?;
        let mut parent = Parent::Root(root);
        let mut depth = 0;
        loop {
            if link.is_none() || (self.fast_only && !self.tree.is_fast(link)) {
                return Ok(None);
            }
            if link.is_leaf() {
                let leaf = self.tree.leaf_at(link, self.guard);
                self.tree.visit_leaf(leaf);
                let out = self.from.leaves_out(self.way, leaf.key());
                return Ok((!out).then_some(leaf));
            }
            let inner = self.tree.enter(link, &parent, self.guard)?;
            let Some(key) = self.from.key() else {
                let begin = Some(self.begin());
                self.push(inner, begin);
                return Ok(None);
            };
            let (prefix, known, len) = inner.node.get(|body| {
                let (prefix, known) = body.prefix();
                (prefix, known, body.prefix_len())
            })?;
            let branch = depth + len;
            let rest = key.get(depth..).unwrap_or(&[]);
            let order = if known {
                compare(&prefix, rest)
            } else {
                let below = self.tree.leaf_below(inner, self.guard)?.key();
                compare(&below[depth..branch], rest)
            };
            let all = match (order, self.way) {
                (Equal, _) => None,
                (Greater, Way::Forward) | (Less, Way::Backward) => Some(true),
                (Less, Way::Forward) | (Greater, Way::Backward) => Some(false),
            };
            if let Some(all) = all {
                let begin = all.then(|| self.begin());
                self.push(inner, begin);
                return Ok(None);
            }
            let at = position(key, branch);
            let child = inner.node.get(|body| body.get(link.kind(), at))?;
            let next = self.after(at);
            self.push(inner, next);
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }
}

/// How a prefix compares with the bytes of a key that stand there: `Equal` if the key goes on behind it.
fn compare(prefix: &[u8], key: &[u8]) -> std::cmp::Ordering {
    let same = common(prefix, key);
    match (prefix.get(same), key.get(same)) {
        (None, _) => Equal,
        // The key ends within the prefix: all below is greater.
        (Some(_), None) => Greater,
        (Some(one), Some(two)) => one.cmp(two),
    }
}
