//! Walking leaves, and rows, in the order of their keys, forward or backward.
//!
//! A walker keeps the path to where it is: nodes as of a version, and where in each it goes on. It takes a few links at a
//! time out of a node, in one validated read, and asks for all of what they lead to at once, so that the misses of
//! neighbours overlap. Inner nodes are entered only while the node that led there is unchanged; when it is not, the
//! walker starts over behind the last one that it gave out.
//!
//! So it gives out links to leaves and rows that were linked at some moment of the walk, in strict order, and each record that is there throughout
//! exactly once, whatever splits, merges or moves meanwhile.

use std::cmp::Ordering::{Equal, Greater, Less};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_tier::Memory;
use timberline_tier::hint::LINE;

use super::node::{
    AT_END, Body, Kind, LAST, Link, PACK_BYTES, Position, Reach, Record, Row, Tip, TipKey,
    leaf_bytes, position, value_offset,
};
use super::tree::{Inner, Parent, Root, Tree, common};

/// Links taken out of a node, at most. When half of them are left, the next are taken: so what they lead to was asked for a while
/// before the walk comes there.
const TAKEN: usize = 16;

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
    At(TipKey<'k>),
    After(TipKey<'k>),
}

impl<'k> Start<'k> {
    pub fn at(key: &'k [u8]) -> Self {
        Start::At(TipKey::Lent(key))
    }

    pub fn after(key: &'k [u8]) -> Self {
        Start::After(TipKey::Lent(key))
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Start::Everything => None,
            Start::At(key) | Start::After(key) => Some(key),
        }
    }

    /// Whether a walk from here leaves out a record with this key.
    #[inline(always)]
    pub fn leaves_out(self, way: Way, key: &[u8]) -> bool {
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

impl Start<'_> {
    /// Which of 64 places of a row a walk from here passes, a bit each.
    pub fn places_in(self, row: Row<'_>, way: Way, group: u8) -> u64 {
        let Some(at) = self.key().and_then(|key| row.place_of(key)) else {
            return !0;
        };
        // Places up to here, and that of the key itself.
        let (upto, own) = match at / 64 {
            of if of == group => ((1 << (at % 64)) - 1, 1 << (at % 64)),
            of if of > group => (!0, 0),
            _ => (0, 0),
        };
        let passed = match way {
            Way::Forward => !upto & !own,
            Way::Backward => upto,
        };
        match self {
            Start::After(_) => passed,
            _ => passed | own,
        }
    }
}

impl Way {
    /// A pack's records on this way.
    #[inline(always)]
    fn over(self, held: &[Record]) -> impl Iterator<Item = Record> {
        (0..held.len()).map(move |at| match self {
            Way::Forward => held[at],
            Way::Backward => held[held.len() - 1 - at],
        })
    }

    /// The last key that a tip covers, on this way.
    fn last_of(self, tip: Tip<'_>) -> TipKey<'_> {
        match self {
            Way::Forward => tip.greatest(),
            Way::Backward => tip.key(),
        }
    }
}

/// What a walk gives out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// What a link leads to.
    At(Link),
    /// One of a pack's.
    Record(Record),
}

impl Item {
    /// Nothing yet.
    pub const NONE: Item = Item::At(Link::NONE);
}

/// Why a ring was not filled any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filled {
    /// There are as many as were asked for.
    Full,
    /// The last one is a row, which is much to show.
    WithRow,
    /// There are no others.
    Ended,
}

struct Frame<'g, R> {
    inner: Inner<'g, R>,
    links: [Link; TAKEN],
    taken: u8,
    count: u8,
    /// Where the next links come from; `None` after the last.
    next: Option<Position>,
}

impl<R> Frame<'_, R> {
    /// The next link, if there is one that was taken and leads to records.
    #[inline(always)]
    fn tip(&mut self) -> Option<Link> {
        if self.taken >= self.count {
            return None;
        }
        let link = *self.links.get(usize::from(self.taken))?;
        link.is_tip().then(|| {
            self.taken += 1;
            link
        })
    }
}

/// A walk over the leaves.
pub(super) struct Walker<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard,
    way: Way,
    /// Whether slow nodes, and all below them, are passed over.
    fast_only: bool,
    /// Links worth having taken.
    ahead: usize,
    from: Start<'g>,
    /// The last one given out; a leaf's key is not read unless the walk starts over.
    last: Item,
    /// The path, of which `depth` nodes are on the way to where the walk is; what lies behind is to be used again.
    frames: Vec<Frame<'g, R>>,
    depth: usize,
    started: bool,
}

impl<'g, M: Memory, R: Reach> Walker<'g, M, R> {
    pub fn new(tree: &'g Tree<M, R>, way: Way, from: Start<'g>, guard: &'g Guard) -> Self {
        Walker {
            tree,
            guard,
            way,
            fast_only: false,
            ahead: TAKEN,
            from,
            last: Item::NONE,
            // As many as fit what allocators give out fast; more where paths are long.
            frames: Vec::with_capacity(3),
            depth: 0,
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
        self.ahead = leaves.clamp(1, TAKEN);
        self
    }

    /// The next leaf or row.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Tip<'g>> {
        // Mostly it is among those that were taken out of the last node.
        let link = match self.top().and_then(Frame::tip) {
            Some(link) => link,
            None => self.search()?,
        };
        self.last = Item::At(link);
        self.tree.tip_at(link, self.guard)
    }

    /// Gives out items to `ring`, each to the place of its number, from `walked` until there are `until`, or up to two more; no more
    /// than `most` are going to be wanted. Returns how many there are then.
    #[inline(always)]
    pub fn fill<const N: usize>(
        &mut self,
        ring: &mut [Item; N],
        mut walked: usize,
        until: usize,
        most: usize,
    ) -> (usize, Filled) {
        let (tree, guard) = (self.tree, self.guard);
        while walked < until {
            self.ahead = (most - walked).min(TAKEN);
            let (before, way, all) = (walked, self.way, !self.fast_only);
            let low = self.low();
            if let Some(frame) = self.top() {
                let mut taken = usize::from(frame.taken);
                let stop = match frame.next {
                    Some(_) => usize::from(frame.count).saturating_sub(low),
                    None => usize::from(frame.count),
                };
                for &link in frame.links[..stop].iter().skip(taken) {
                    if walked >= until {
                        break;
                    }
                    if link.is_leaf() {
                        ring[walked % N] = Item::At(link);
                        walked += 1;
                    } else if link.is_pack() {
                        let pack = tree.pack_at(link, guard);
                        tree.visit_pack(pack);
                        tree.note(Tip::Pack(pack), Access::Reuse);
                        for record in way.over(&pack.last()) {
                            ring[walked % N] = Item::Record(record);
                            walked += 1;
                        }
                    } else if all && link.is_few() {
                        let Some((few, count)) = Self::few(tree, link, frame.inner, way, guard)
                        else {
                            break;
                        };
                        for &link in &few[..count] {
                            ring[walked % N] = Item::At(link);
                            walked += 1;
                        }
                    } else {
                        break;
                    }
                    taken += 1;
                }
                frame.taken = taken as u8;
            }
            if walked > before {
                self.last = ring[(walked - 1) % N];
                continue;
            }
            let Some(link) = self.search() else {
                return (walked, Filled::Ended);
            };
            if link.is_pack() {
                // It may be where the walk began, somewhere in its middle.
                let pack = tree.pack_at(link, guard);
                tree.visit_pack(pack);
                tree.note(Tip::Pack(pack), Access::Reuse);
                for record in way.over(&pack.last()) {
                    if !self.from.leaves_out(way, &record.0.to_be_bytes()) {
                        self.last = Item::Record(record);
                        ring[walked % N] = self.last;
                        walked += 1;
                    }
                }
                continue;
            }
            self.last = Item::At(link);
            ring[walked % N] = self.last;
            walked += 1;
            if link.is_row() {
                return (walked, Filled::WithRow);
            }
        }
        (walked, Filled::Full)
    }

    /// The links of a node of three, in the walk's order, where they all lead to leaves, for which is asked; where a writer is
    /// at work, or the parent is no longer the same, the walk goes on step by step.
    #[inline(always)]
    fn few(
        tree: &'g Tree<M, R>,
        link: Link,
        parent: Inner<'g, R>,
        way: Way,
        guard: &'g Guard,
    ) -> Option<([Link; 3], usize)> {
        let inner = tree
            .enter(link, &Parent::Node(parent, AT_END), guard)
            .ok()?;
        tree.memory()
            .visit(link.address(tree.base), Kind::N3.bytes::<R>());
        let (mut links, count) = inner.node.get(Body::three).ok()?;
        if !links[..count].iter().all(|link| link.is_leaf()) {
            return None;
        }
        for &link in &links[..count] {
            Self::ask_for(tree, link);
        }
        if way == Way::Backward {
            links[..count].reverse();
        }
        Some((links, count))
    }

    /// When so many links are left, the next are taken.
    fn low(&self) -> usize {
        self.ahead / 2
    }

    /// The node that the walk is at.
    #[inline(always)]
    fn top(&mut self) -> Option<&mut Frame<'g, R>> {
        self.frames.get_mut(self.depth.wrapping_sub(1))
    }

    #[inline(never)]
    fn search(&mut self) -> Option<Link> {
        let mut tries = 0;
        loop {
            match self.advance() {
                Ok(link) => return link,
                Err(Restart) => {
                    pause(tries);
                    tries += 1;
                    self.started = false;
                    self.depth = 0;
                    match self.last {
                        Item::Record((key, _)) => {
                            self.from = Start::After(TipKey::Number(key.to_be_bytes()));
                        }
                        Item::At(link) => {
                            let last =
                                (!link.is_none()).then(|| self.tree.tip_at(link, self.guard));
                            if let Some(last) = last.flatten() {
                                self.from = Start::After(self.way.last_of(last));
                            }
                        }
                    }
                }
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Link>, Restart> {
        if !self.started {
            let first = self.seek()?;
            self.started = true;
            if first.is_some() {
                return Ok(first);
            }
        }
        let low = self.low();
        while let Some(frame) = self.top() {
            if let Some(next) = frame.next
                && usize::from(frame.count - frame.taken) <= low
            {
                self.take(next)?;
                continue;
            }
            if let Some(link) = frame.tip() {
                if link.is_row()
                    && let Some(&next) =
                        frame.links[..usize::from(frame.count)].get(usize::from(frame.taken))
                {
                    Self::ask_for(self.tree, next);
                }
                return Ok(Some(link));
            }
            if frame.taken < frame.count {
                let link = frame.links[usize::from(frame.taken)];
                frame.taken += 1;
                let parent = Parent::Node(frame.inner, AT_END);
                let inner = self.tree.enter(link, &parent, self.guard)?;
                let next = Some(self.begin());
                self.push(inner, next);
            } else {
                self.depth -= 1;
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
    fn take(&mut self, from: Position) -> Result<(), Restart> {
        let Self {
            tree,
            way,
            ahead,
            fast_only,
            ..
        } = *self;
        let Some(frame) = self.top() else {
            return Ok(());
        };
        let (taken, left) = (frame.taken as usize, usize::from(frame.count - frame.taken));
        frame.links.copy_within(taken..taken + left, 0);
        let (link, links) = (frame.inner.link, &mut frame.links[left..ahead.max(left)]);
        let (kind, address) = (link.kind(), link.address(tree.base));
        tree.memory().visit(address, kind.bytes::<R>());
        let (mut count, rest) = frame.inner.node.get(|body| match way {
            Way::Forward => body.take(kind, from, links),
            Way::Backward => body.take_back(from, links),
        })?;
        if fast_only {
            let slow = |link: &Link| !tree.is_fast(*link);
            let all = std::mem::replace(&mut count, 0);
            for at in 0..all {
                if !slow(&links[at]) {
                    links[count] = links[at];
                    count += 1;
                }
            }
        }
        // A row takes long to show: there is time to ask for the next one then.
        let until_row = links[..count].iter().position(|link| link.is_row());
        for &link in &links[..until_row.map_or(count, |at| at + 1)] {
            Self::ask_for(tree, link);
        }
        if let Some(next) = rest
            && let (_, Some(offset)) = kind.reads::<R>(next.saturating_sub(1) as u8)
        {
            tree.memory().prefetch(address + offset, 2 * LINE);
        }
        (frame.taken, frame.count, frame.next) = (0, (left + count) as u8, rest);
        Ok(())
    }

    #[inline(always)]
    fn ask_for(tree: &Tree<M, R>, link: Link) {
        let address = link.address(tree.base);
        let bytes = if link.is_leaf() {
            leaf_bytes(8)
        } else if link.is_pack() {
            PACK_BYTES
        } else if link.is_row() {
            value_offset(8)
        } else {
            link.kind().bytes::<R>().min(128)
        };
        tree.memory().prefetch(address, bytes);
    }

    /// Builds the path to where the walk begins. Returns the link there, if the path ends at records that are not left out.
    fn seek(&mut self) -> Result<Option<Link>, Restart> {
        let root = self.tree.root.read()?;
        let mut link = root.get(Root::link)?;
        let mut parent = Parent::Root(root);
        let mut depth = 0;
        loop {
            if link.is_none() || (self.fast_only && !self.tree.is_fast(link)) {
                return Ok(None);
            }
            if let Some(tip) = self.tree.tip_at(link, self.guard) {
                if let Tip::Leaf(leaf) = tip {
                    self.tree.visit_leaf(leaf);
                }
                let out = self.from.leaves_out(self.way, &self.way.last_of(tip));
                return Ok((!out).then_some(link));
            }
            let inner = self.tree.enter(link, &parent, self.guard)?;
            let from = self.from;
            let Some(key) = from.key() else {
                let begin = Some(self.begin());
                self.push(inner, begin);
                return Ok(None);
            };
            let len = inner.node.get(|body| body.prefix_len())?;
            let branch = depth + len;
            let order = if len == 0 {
                Equal
            } else {
                let (prefix, known) = inner.node.get(|body| body.prefix())?;
                let rest = key.get(depth..).unwrap_or(&[]);
                if known {
                    compare(&prefix, rest)
                } else {
                    let below = self.tree.key_below(inner, self.guard)?;
                    compare(&below[depth..branch], rest)
                }
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
