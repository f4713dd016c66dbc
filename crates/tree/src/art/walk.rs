//! Walking leaves, packs and dense leaves in the order of their keys, forward or backward.
//!
//! A walker keeps the path to where it is: nodes as of a version, and where in each it goes on. It
//! takes a few links at a time out of a node, in one validated read, and asks for all of what they
//! lead to at once, so that the misses of neighbours overlap. Inner nodes are entered only while
//! the node that led there is unchanged; when it is not, the walk starts over behind what was shown
//! last.
//!
//! So it gives out links that were there at some moment of the walk, in strict order, and each
//! record that is there throughout exactly once, whatever splits, merges or moves meanwhile.

use std::cmp::Ordering::{Equal, Greater, Less};

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_tier::Memory;

use super::node::{
    Inner, Link, PACK_BYTES, Parent, Position, Reach, Terminal, leaf_bytes, position, value_offset,
};
use super::tree::{Tree, common};
use super::way::Start;
use crate::range::Way;

/// Links taken out of a node at a time, at most.
const TAKEN: usize = 16;

/// Why a ring was not filled any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filled {
    /// There are as many as were asked for.
    Full,
    /// The last one is a dense leaf, which is much to show.
    WithDense,
    /// There are no others.
    Ended,
    /// A writer got in between: the walk has to [start over](Walker::start_over).
    Lost,
}

struct Frame<'g, R> {
    inner: Inner<'g, R>,
    links: [Link<'g>; TAKEN],
    /// Of these links, how many were passed, and how many there are.
    taken: u8,
    count: u8,
    /// Where the next links come from; `None` after the last.
    next: Option<Position>,
}

/// A walk over what holds records.
pub(super) struct Walker<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard<'g>,
    way: Way,
    /// Whether slow nodes, and all below them, are passed over.
    fast_only: bool,
    from: Start<'g>,
    /// The number of the link that the place to begin led to, which may lead to records before it,
    /// too.
    sought: usize,
    /// The path, of which `depth` nodes are on the way to where the walk is; what lies behind is to
    /// be used again.
    frames: Vec<Frame<'g, R>>,
    depth: usize,
    started: bool,
    restarts: u32,
}

impl<'g, M: Memory, R: Reach> Walker<'g, M, R> {
    pub fn new(tree: &'g Tree<M, R>, way: Way, from: Start<'g>, guard: &'g Guard<'g>) -> Self {
        Walker {
            tree,
            guard,
            way,
            fast_only: false,
            from,
            sought: usize::MAX,
            // As many as fit what allocators give out fast; more where paths are long.
            frames: Vec::with_capacity(3),
            depth: 0,
            started: false,
            restarts: 0,
        }
    }

    /// Passes over what is slow, and what is below it.
    pub fn fast_only(mut self) -> Self {
        self.fast_only = true;
        self
    }

    /// From where on to show what the link of this number leads to.
    #[inline(always)]
    pub fn from(&self, number: usize) -> Start<'g> {
        match number == self.sought {
            true => self.from,
            false => Start::Everything,
        }
    }

    /// Gives out links to `ring`, each to the place of its number, from `walked` until there are
    /// `until`; no more than `most` are going to be wanted. Returns how many there are then.
    #[inline(always)]
    pub fn fill<const N: usize>(
        &mut self,
        ring: &mut [Link<'g>; N],
        mut walked: usize,
        until: usize,
        most: usize,
    ) -> (usize, Filled) {
        if !self.started {
            match self.seek() {
                Ok(None) => {}
                Ok(Some(link)) => {
                    ring[walked % N] = link;
                    self.sought = walked;
                    walked += 1;
                    if link.is_dense() {
                        return (walked, Filled::WithDense);
                    }
                }
                Err(Restart) => return (walked, Filled::Lost),
            }
        }
        while walked < until {
            let frame = match self.open(most - walked) {
                Ok(Some(frame)) => frame,
                Ok(None) => return (walked, Filled::Ended),
                Err(Restart) => return (walked, Filled::Lost),
            };
            let (taken, count) = (usize::from(frame.taken), usize::from(frame.count));
            let room = count.min(taken + (until - walked)).min(TAKEN);
            let before = walked;
            for &link in frame.links[..room].iter().skip(taken) {
                if !link.is_terminal() {
                    break;
                }
                ring[walked % N] = link;
                walked += 1;
                if link.is_dense() {
                    break;
                }
            }
            frame.taken += (walked - before) as u8;
            let last = usize::from(frame.taken) - 1;
            if frame.links[last % TAKEN].is_dense() {
                if let Some(&next) = frame.links[..count].get(last + 1) {
                    Self::prefetch(self.tree, next);
                }
                return (walked, Filled::WithDense);
            }
        }
        (walked, Filled::Full)
    }

    /// The walk begins again, at another place.
    #[cold]
    pub fn start_over(&mut self, from: Start<'g>) {
        pause(self.restarts);
        self.restarts += 1;
        (self.from, self.started, self.depth) = (from, false, 0);
    }

    /// The node whose next link leads to records, if there is any. `most` are going to be wanted.
    #[inline(always)]
    fn open(&mut self, most: usize) -> Result<Option<&mut Frame<'g, R>>, Restart> {
        let ready = self.top().is_some_and(|frame| {
            let next = frame.links[..usize::from(frame.count)].get(usize::from(frame.taken));
            next.is_some_and(|link| link.is_terminal())
        });
        if !ready {
            self.search(most)?;
        }
        Ok(self.top())
    }

    #[inline(never)]
    fn search(&mut self, most: usize) -> Result<(), Restart> {
        while let Some(frame) = self.top() {
            if frame.taken < frame.count {
                let Some(link) = frame.links[usize::from(frame.taken)].inner() else {
                    return Ok(());
                };
                frame.taken += 1;
                let parent = Parent::Node(frame.inner, 0);
                let inner = self.tree.enter(link, &parent)?;
                self.push(inner, Some(self.way.begin()));
            } else if let Some(next) = frame.next {
                self.take(next, most.min(TAKEN))?;
            } else {
                self.depth -= 1;
            }
        }
        Ok(())
    }

    /// The node that the walk is at.
    #[inline(always)]
    fn top(&mut self) -> Option<&mut Frame<'g, R>> {
        self.frames.get_mut(self.depth.wrapping_sub(1))
    }

    /// Goes down to a node, of which nothing is taken yet.
    fn push(&mut self, inner: Inner<'g, R>, next: Option<Position>) {
        self.depth += 1;
        if let Some(frame) = self.top() {
            (frame.inner, frame.taken, frame.count, frame.next) = (inner, 0, 0, next);
            return;
        }
        self.frames.push(Frame {
            inner,
            links: [Link::NONE; TAKEN],
            taken: 0,
            count: 0,
            next,
        });
    }

    /// Takes the next links out of the node that the walk is at, and asks for what they lead to.
    fn take(&mut self, from: Position, most: usize) -> Result<(), Restart> {
        let (tree, way, fast_only) = (self.tree, self.way, self.fast_only);
        let Some(frame) = self.top() else {
            return Ok(());
        };
        let (link, links) = (frame.inner.link(), &mut frame.links[..most.max(1)]);
        let (kind, address) = (link.kind(), link.address(tree.base));
        tree.memory().charge_access(address, kind.bytes::<R>());
        let (mut count, rest) = frame.inner.take(way, from, links)?;
        if fast_only {
            let all = std::mem::replace(&mut count, 0);
            for at in 0..all {
                if tree.is_fast(*links[at]) {
                    links[count] = links[at];
                    count += 1;
                }
            }
        }
        // A dense leaf takes long to show: there is time to ask for the next one then.
        for &link in &links[..count] {
            Self::prefetch(tree, link);
            if link.is_dense() {
                break;
            }
        }
        (frame.taken, frame.count, frame.next) = (0, count as u8, rest);
        Ok(())
    }

    #[inline(always)]
    fn prefetch(tree: &Tree<M, R>, link: Link<'_>) {
        let prefetch = |bytes| tree.memory().prefetch(link.address(tree.base), bytes);
        // Each by itself: where it is known what a link leads to, its address is one subtraction.
        if link.is_leaf() {
            prefetch(leaf_bytes(8));
        } else if link.is_pack() {
            prefetch(PACK_BYTES);
        } else if link.is_dense() {
            prefetch(value_offset(8));
        } else {
            prefetch(link.kind().bytes::<R>().min(128));
        }
    }

    /// Builds the path to where the walk begins. Returns the link there, if the path ends at
    /// records that are not left out.
    fn seek(&mut self) -> Result<Option<Link<'g>>, Restart> {
        self.started = true;
        let (mut parent, mut link) = self.tree.root.read(self.guard)?;
        let mut depth = 0;
        loop {
            if link.is_none() || (self.fast_only && !self.tree.is_fast(*link)) {
                return Ok(None);
            }
            if let Some(terminal) = link.terminal(self.tree.base) {
                if let Terminal::Leaf(leaf) = terminal {
                    self.tree.visit_leaf(leaf);
                }
                let out = self.from.leaves_out(self.way, &self.way.last_of(terminal));
                return Ok((!out).then_some(link));
            }
            let Some(inner) = link.inner() else {
                return Ok(None);
            };
            let inner = self.tree.enter(inner, &parent)?;
            let from = self.from;
            let Some(key) = from.key() else {
                let begin = Some(self.way.begin());
                self.push(inner, begin);
                return Ok(None);
            };
            let len = inner.get(|body| body.prefix_len())?;
            let branch = depth + len;
            let order = if len == 0 {
                Equal
            } else {
                let (prefix, known) = inner.get(|body| body.prefix())?;
                let rest = key.get(depth..).unwrap_or(&[]);
                if known {
                    compare(&prefix, rest)
                } else {
                    let below = self.tree.key_below(inner)?;
                    compare(&below[depth..branch], rest)
                }
            };
            let all = match (order, self.way) {
                (Equal, _) => None,
                (Greater, Way::Forward) | (Less, Way::Backward) => Some(true),
                (Less, Way::Forward) | (Greater, Way::Backward) => Some(false),
            };
            if let Some(all) = all {
                let begin = all.then(|| self.way.begin());
                self.push(inner, begin);
                return Ok(None);
            }
            let at = position(key, branch);
            let child = inner.child(at)?;
            let next = self.way.after(at);
            self.push(inner, next);
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
        }
    }
}

/// How a prefix compares with the bytes of a key that stand there: `Equal` if the key goes on
/// behind it.
fn compare(prefix: &[u8], key: &[u8]) -> std::cmp::Ordering {
    let same = common(prefix, key);
    match (prefix.get(same), key.get(same)) {
        (None, _) => Equal,
        // The key ends within the prefix: all below is greater.
        (Some(_), None) => Greater,
        (Some(one), Some(two)) => one.cmp(two),
    }
}
