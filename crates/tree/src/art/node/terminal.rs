//! Terminal nodes of paths: a leaf of one record, a pack of a few, or a dense leaf of many.

use std::ops::Deref;
use std::sync::atomic::AtomicU16;

use super::base::Base;
use super::dense::{DenseLeaf, LockedDense};
use super::leaf::{Leaf, LockedLeaf};
use super::link::{Link, StoredLink};
use super::pack::{LockedPack, PACK_BYTES, Pack};
use crate::node::retired::Retired;
use crate::value::{Loan, RetiredValue};

/// A key: borrowed from the leaf that holds it, or a number that was a key when it was read.
#[derive(Clone, Copy, Debug)]
pub enum TerminalKey<'g> {
    Lent(&'g [u8]),
    Number([u8; 8]),
}

impl TerminalKey<'_> {
    fn number(key: u64) -> Self {
        TerminalKey::Number(key.to_be_bytes())
    }
}

impl Deref for TerminalKey<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            TerminalKey::Lent(key) => key,
            TerminalKey::Number(key) => key,
        }
    }
}

/// A node that holds records, alive as long as the thread stays pinned.
#[derive(Clone, Copy, Debug)]
pub enum Terminal<'g> {
    /// One record.
    Leaf(Leaf<'g>),
    /// Two or three records.
    Pack(Pack<'g>),
    /// The records of neighbouring keys.
    DenseLeaf(DenseLeaf<'g>),
}

impl<'g> Terminal<'g> {
    /// Its name: a key that leads to it. A leaf's own, the least in a pack, the least that a dense
    /// leaf covers.
    #[inline(always)]
    pub fn key(self) -> TerminalKey<'g> {
        match self {
            Terminal::Leaf(leaf) => TerminalKey::Lent(leaf.key()),
            Terminal::Pack(pack) => TerminalKey::number(pack.key()),
            Terminal::DenseLeaf(dense) => TerminalKey::Lent(dense.least()),
        }
    }

    /// The greatest key that it holds, or can hold.
    pub fn greatest(self) -> TerminalKey<'g> {
        match self {
            Terminal::Leaf(leaf) => TerminalKey::Lent(leaf.key()),
            Terminal::Pack(pack) => match pack.last().last() {
                Some(&(key, _)) => TerminalKey::number(key),
                None => self.key(),
            },
            Terminal::DenseLeaf(dense) => TerminalKey::Lent(dense.greatest()),
        }
    }

    /// Whether a key that led here belongs here.
    pub fn covers(self, key: &[u8]) -> bool {
        match self {
            Terminal::Leaf(leaf) => leaf.key() == key,
            Terminal::Pack(_) => true,
            Terminal::DenseLeaf(dense) => dense.place_of(key).is_some(),
        }
    }

    /// Two bytes of heat for a placement.
    pub fn heat(self) -> &'g AtomicU16 {
        match self {
            Terminal::Leaf(leaf) => leaf.heat(),
            Terminal::Pack(pack) => pack.heat(),
            Terminal::DenseLeaf(dense) => dense.heat(),
        }
    }

    /// Its address.
    #[inline(always)]
    pub fn address(self) -> usize {
        match self {
            Terminal::Leaf(leaf) => leaf.address(),
            Terminal::Pack(pack) => pack.address(),
            Terminal::DenseLeaf(dense) => dense.address(),
        }
    }

    /// The link to it. (Of a dense leaf with all its records, another one may be stored.)
    pub fn link<R>(self, base: Base<R>) -> Link<'g> {
        let address = self.address();
        let link = match self {
            Terminal::Leaf(_) => StoredLink::to_leaf(base, address),
            Terminal::Pack(_) => StoredLink::to_pack(base, address),
            Terminal::DenseLeaf(_) => StoredLink::to_dense(base, address, false),
        };
        // SAFETY: it is alive for as long.
        unsafe { link.alive() }
    }

    /// Its size in bytes.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        match self {
            Terminal::Leaf(leaf) => leaf.bytes(),
            Terminal::Pack(_) => PACK_BYTES,
            Terminal::DenseLeaf(dense) => dense.capacity().bytes(),
        }
    }

    /// Whether it was unlinked.
    pub fn is_obsolete(self) -> bool {
        match self {
            Terminal::Leaf(leaf) => leaf.is_obsolete(),
            Terminal::Pack(pack) => pack.is_obsolete(),
            Terminal::DenseLeaf(dense) => dense.is_obsolete(),
        }
    }

    /// Locks it. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// It was unlinked.
    pub fn lock(self) -> Result<LockedTerminal<'g>, timberline_sync::Restart> {
        Ok(match self {
            Terminal::Leaf(leaf) => LockedTerminal::Leaf(leaf.lock()?),
            Terminal::Pack(pack) => LockedTerminal::Pack(pack.lock()?),
            Terminal::DenseLeaf(dense) => LockedTerminal::DenseLeaf(dense.lock()?),
        })
    }
}

/// The exclusive right to change a terminal node; unlocks when dropped.
#[derive(Debug)]
pub enum LockedTerminal<'g> {
    Leaf(LockedLeaf<'g>),
    Pack(LockedPack<'g>),
    DenseLeaf(LockedDense<'g>),
}

impl<'g> LockedTerminal<'g> {
    /// The locked node.
    pub fn terminal(&self) -> Terminal<'g> {
        match self {
            LockedTerminal::Leaf(locked) => Terminal::Leaf(locked.leaf()),
            LockedTerminal::Pack(locked) => Terminal::Pack(locked.node()),
            LockedTerminal::DenseLeaf(locked) => Terminal::DenseLeaf(locked.node()),
        }
    }

    /// The value of a key, if this is its record and the only one here.
    pub fn last_of(&self, key: &[u8]) -> Option<Loan<'g>> {
        let (value, count) = match self {
            LockedTerminal::Leaf(locked) => (Some(locked.leaf().value()), 1),
            LockedTerminal::Pack(locked) => {
                let word = locked.get(number(key));
                (word.map(|word| locked.node().lend(word)), locked.count())
            }
            LockedTerminal::DenseLeaf(locked) => {
                let at = locked.node().place_of(key);
                let word = at.and_then(|at| locked.get(at));
                (word.map(|word| locked.node().lend(word)), locked.count())
            }
        };
        value.filter(|_| count == 1)
    }

    /// Calls `show` with the key of each record.
    pub fn each_key(&self, mut show: impl FnMut(&[u8])) {
        match self {
            LockedTerminal::Leaf(locked) => show(locked.leaf().key()),
            LockedTerminal::Pack(locked) => {
                let all = locked.all();
                all.iter().for_each(|(key, _)| show(&key.to_be_bytes()));
            }
            LockedTerminal::DenseLeaf(locked) => {
                let first = number(locked.node().least());
                locked.each(|at, _| show(&(first + u64::from(at)).to_be_bytes()));
            }
        }
    }

    /// The link to it.
    pub(super) fn link<R>(&self, base: Base<R>) -> Link<'g> {
        self.terminal().link(base)
    }

    /// Unlocks for good: the node goes with its record.
    ///
    /// # Safety
    /// Nothing leads to the node any more.
    pub(super) unsafe fn remove(self) -> Removed<'g> {
        let value = match &self {
            // SAFETY: the leaf had it, and no other.
            LockedTerminal::Leaf(locked) => unsafe {
                Some(RetiredValue::new(locked.leaf().value()))
            },
            LockedTerminal::Pack(_) | LockedTerminal::DenseLeaf(_) => None,
        };
        // SAFETY: as the caller promises.
        let node = unsafe { self.retire() };
        Removed { node, value }
    }

    /// Unlocks for good: another node has its records.
    ///
    /// # Safety
    /// Nothing leads to the node any more.
    pub(super) unsafe fn retire(self) -> Retired {
        let terminal = self.terminal();
        match self {
            LockedTerminal::Leaf(locked) => locked.retire(),
            LockedTerminal::Pack(locked) => locked.retire(),
            LockedTerminal::DenseLeaf(locked) => locked.retire(),
        }
        // SAFETY: it was made of a slot for its size. Only its lock makes one of these, once.
        unsafe { Retired::new(terminal.address(), terminal.bytes(), true) }
    }
}

/// What held a record, and was unlinked with it.
#[must_use = "its memory is lost if it is not reclaimed"]
pub struct Removed<'g> {
    pub node: Retired,
    /// The value, if it may own anything.
    pub value: Option<RetiredValue<'g>>,
}

/// A key of eight bytes as a number, in the same order.
#[inline(always)]
pub fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}
