//! Memory that disks can read into and write from directly.

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
    fn a_buffer_larger_than_memory_is_refused() {
        assert!(Buffer::zeroed(isize::MAX as usize - BLOCK).is_err());
    }
}
