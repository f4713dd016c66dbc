//! Memory that disks can read into and write from directly.

use std::cell::RefCell;
use std::collections::TryReserveError;
use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

/// Buffers lie at multiples of this many bytes and are as long as one: the alignment that direct
/// I/O needs on all known disks.
pub const BLOCK: usize = 4096;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// Buffers of up to so many blocks are kept when they are dropped,
const SHORT: usize = 2;
/// so many of each length, by each thread.
const KEPT: usize = 64;

thread_local! {
    /// Buffers of one block, of two, …
    static FREE: RefCell<[Vec<Buffer>; SHORT]> = const { RefCell::new([const { Vec::new() }; SHORT]) };
}

/// Bytes for direct I/O: aligned to [`BLOCK`]s.
#[derive(Default)]
pub struct Buffer(Vec<Block>);

impl Buffer {
    /// A buffer of at least this many bytes, all zero. Fails when memory is short.
    pub fn zeroed(bytes: usize) -> Result<Buffer, TryReserveError> {
        let blocks = bytes.div_ceil(BLOCK);
        let mut all = Vec::new();
        all.try_reserve_exact(blocks)?;
        all.resize(blocks, Block::zeroed());
        Ok(Buffer(all))
    }

    /// A buffer of at least this many bytes, to read into. What is in it may be what this thread
    /// read before: to make and clear one for each short read costs a tenth of that. Fails when
    /// memory is short.
    pub fn for_reading(bytes: usize) -> Result<Buffer, TryReserveError> {
        let kept = |lists: &RefCell<[Vec<Buffer>; SHORT]>| {
            let of_length = bytes.div_ceil(BLOCK).checked_sub(1)?;
            lists.borrow_mut().get_mut(of_length)?.pop()
        };
        match FREE.try_with(kept) {
            Ok(Some(buffer)) => Ok(buffer),
            _ => Buffer::zeroed(bytes),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(of_length) = self.0.len().checked_sub(1).filter(|&it| it < SHORT) else {
            return;
        };
        let blocks = std::mem::take(&mut self.0);
        // A thread that ends keeps none.
        let _ = FREE.try_with(|lists| {
            let list = &mut lists.borrow_mut()[of_length];
            if list.len() < KEPT {
                list.push(Buffer(blocks));
            }
        });
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_whole_blocks() {
        for bytes in [0, 1, BLOCK, BLOCK + 1, 10 * BLOCK] {
            let buffer = Buffer::zeroed(bytes).expect("there is memory");
            assert_eq!(buffer.len(), bytes.next_multiple_of(BLOCK));
            assert!(buffer.as_ptr().addr().is_multiple_of(BLOCK));
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn short_buffers_are_used_again() {
        let at = |buffer: &Buffer| buffer.as_ptr().addr();
        for bytes in [1, BLOCK, BLOCK + 1, 2 * BLOCK] {
            let buffer = Buffer::for_reading(bytes).expect("there is memory");
            assert_eq!(buffer.len(), bytes.next_multiple_of(BLOCK));
            let before = at(&buffer);
            drop(buffer);
            let mut again = Buffer::for_reading(bytes).expect("there is memory");
            assert_eq!(
                (at(&again), again.len()),
                (before, bytes.next_multiple_of(BLOCK))
            );
            again.fill(1);
        }
        // One that is to be zero is.
        let zeroed = Buffer::zeroed(BLOCK).expect("there is memory");
        assert!(zeroed.iter().all(|&byte| byte == 0));
        let none = Buffer::for_reading(0).expect("it takes no memory");
        assert!(none.is_empty());
        let long = Buffer::for_reading(10 * BLOCK).expect("there is memory");
        assert_eq!(long.len(), 10 * BLOCK);
        // No more are kept than that many.
        let many: Vec<_> = (0..2 * KEPT).map(|_| Buffer::for_reading(1)).collect();
        drop(many);
        FREE.with(|lists| assert_eq!(lists.borrow()[0].len(), KEPT));
    }

    #[test]
    fn a_buffer_larger_than_memory_is_refused() {
        assert!(Buffer::zeroed(isize::MAX as usize - BLOCK).is_err());
    }
}
