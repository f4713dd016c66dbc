//! A compute server's nodes in its own memory.
//!
//! - A [`Frame`] holds a node. There are as many as the cache's bytes allow, from the start.
//! - A node whose parent has its frame's number in place of its address is *hot*. The way to it
//!   from the root is hot, too.
//! - [`Cooling`] has the nodes that go next, [`Flights`] the addresses with operations under way.
//! - [`Copies`] has hot records whose leaves are not there.

mod admission;
mod cooling;
mod copies;
mod flights;
mod frame;
mod lately;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub use admission::LeafAdmission;
pub(crate) use cooling::Cooling;
pub(crate) use copies::{Copies, InTheWay};
pub(crate) use flights::{Flight, Flights};
pub(crate) use frame::{Frame, FrameId, State};
use lately::Lately;

use crate::address::Address;
use crate::error::{Error, Result};

/// The share of frames that may cool: one in so many.
const COOLING: usize = 10;

/// Leaves that are remembered when they did not stay: one for so many frames. Of a tenth to four
/// times as many as there are frames, a tenth to a quarter served best (simulated, Zipf 0.99).
const LATELY: usize = 4;

/// The least number of frames: several paths to leaves of the highest tree.
const LEAST: usize = 64;

/// The frames of a compute server.
pub(crate) struct Cache {
    frames: Box<[Frame]>,
    free: Mutex<Vec<u32>>,
    pub cooling: Cooling,
    pub copies: Copies,
    pub flights: Flights,
    lately: Lately,
    root: AtomicU32,
    draws: AtomicU64,
}

/// How the bytes of a cache are used.
struct Sizes {
    frames: usize,
    copies_bytes: usize,
}

impl Sizes {
    fn of(all_bytes: usize, copies: f64) -> Result<Sizes> {
        let nodes = 1.0 - copies.clamp(0.0, 1.0);
        let bytes = (all_bytes as f64 * nodes) as usize;
        let frame_bytes = size_of::<Frame>() + size_of::<u32>();
        let bytes_of = |frames: usize| {
            let tables = Cooling::bytes(frames / COOLING) + Lately::bytes(frames / LATELY);
            frames * frame_bytes + tables
        };
        let mut frames = bytes / frame_bytes;
        if u32::try_from(frames).is_err() {
            return Err(Error::OutOfMemory(all_bytes));
        }
        while frames > 0 && bytes_of(frames) > bytes {
            frames -= 1;
        }
        if frames < LEAST {
            // One more than the quotient, which may be rounded.
            let least = (bytes_of(LEAST) as f64 / nodes) as usize;
            return Err(Error::CacheTooSmall {
                bytes: all_bytes,
                least: least.saturating_add(1),
            });
        }
        Ok(Sizes {
            frames,
            copies_bytes: all_bytes - bytes,
        })
    }
}

/// What SplitMix64 adds in each step (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64: all bits depend on all.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Any bits as a number below `end`, by the highest of them.
fn below(end: usize, bits: u64) -> usize {
    ((u128::from(bits) * end as u128) >> 64) as usize
}

/// So many values.
///
/// # Errors
/// The system refuses so much memory.
fn boxed<T>(count: usize, make: impl FnMut() -> T) -> Result<Box<[T]>> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(count);
    reserved.map_err(|_| Error::OutOfMemory(count.saturating_mul(size_of::<T>())))?;
    all.resize_with(count, make);
    Ok(all.into_boxed_slice())
}

impl Cache {
    /// A cache of at most so many bytes, with all that it needs to find and replace nodes. A part
    /// of them is for copies of records. The seed determines which nodes go.
    ///
    /// # Errors
    /// It is too small, or the system refuses so much memory.
    pub fn new(all_bytes: usize, copies: f64, seed: u64) -> Result<Cache> {
        let Sizes {
            frames,
            copies_bytes,
        } = Sizes::of(all_bytes, copies)?;
        let mut free = (0..frames as u32).rev();
        let free = boxed(frames, || free.next().expect("one for each frame"))?;
        Ok(Cache {
            frames: boxed(frames, Frame::new)?,
            free: Mutex::new(free.into_vec()),
            cooling: Cooling::new(frames / COOLING),
            copies: Copies::new(copies_bytes)?,
            flights: Flights::default(),
            lately: Lately::new(frames / LATELY)?,
            root: AtomicU32::new(0),
            draws: AtomicU64::new(seed),
        })
    }

    /// Whether there can be a cache of so many bytes.
    ///
    /// # Errors
    /// It is too small, or larger than any.
    pub fn check(all_bytes: usize, copies: f64) -> Result<()> {
        Sizes::of(all_bytes, copies).map(|_| ())
    }

    /// A frame. Any number names one: it may come from a read that fails later.
    #[inline(always)]
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[(id.0 as usize).min(self.frames.len() - 1)]
    }

    /// All frames.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = FrameId> + use<> {
        (0..self.frames.len() as u32).map(FrameId)
    }

    /// The frame of the root.
    #[inline(always)]
    pub fn root(&self) -> FrameId {
        FrameId(self.root.load(Relaxed))
    }

    pub fn set_root(&self, root: FrameId) {
        self.root.store(root.0, Relaxed);
    }

    /// A free frame, if there is one.
    pub fn take_free(&self) -> Option<FrameId> {
        let mut free = self.free.lock().unwrap_or_else(|it| it.into_inner());
        free.pop().map(FrameId)
    }

    /// Takes back a frame that no word and no queue leads to.
    pub fn give_back(&self, id: FrameId) {
        debug_assert_eq!(self.frame(id).state(), State::Free);
        let mut free = self.free.lock().unwrap_or_else(|it| it.into_inner());
        free.push(id.0);
    }

    /// Draws a number below `end`.
    pub fn draw(&self, end: usize) -> usize {
        // One step of SplitMix64, which needs no lock.
        below(end, mixed(self.draws.fetch_add(GOLDEN, Relaxed)))
    }

    /// Whether a leaf that was fetched stays.
    pub fn admits(&self, leaf: Address, admission: LeafAdmission) -> bool {
        const ONE: usize = 1 << 20;
        match admission {
            LeafAdmission::Chance(chance) => self.draw(ONE) < (chance * ONE as f64) as usize,
            LeafAdmission::Adaptive => self.lately.again(leaf),
        }
    }

    /// A frame by chance.
    pub fn draw_frame(&self) -> FrameId {
        FrameId(self.draw(self.frames.len()) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_cache_is_enough() {
        for copies in [0.0, 0.02, 0.5, 0.97] {
            let Err(Error::CacheTooSmall { bytes, least }) = Cache::check(1_000, copies) else {
                panic!("a cache of 1,000 bytes");
            };
            assert_eq!(bytes, 1_000);
            assert!(Cache::check(least - 100, copies).is_err());
            assert_eq!(Cache::check(least, copies), Ok(()));
        }
        let none = Cache::check(1 << 30, 1.0);
        assert!(matches!(none, Err(Error::CacheTooSmall { .. })), "{none:?}");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for bytes in [usize::MAX, usize::MAX >> 20] {
            let made = Cache::new(bytes, 0.0, 1).err();
            assert!(matches!(made, Some(Error::OutOfMemory(_))), "{made:?}");
        }
        let copies = Copies::new(usize::MAX / 2).err();
        assert!(matches!(copies, Some(Error::OutOfMemory(_))), "{copies:?}");
    }
}
