//! A part of a checkpoint's file, in memory.

use timberline_io::{BLOCK, Buffer, File};

use super::page::PAGE;
use super::read::Reason;

/// Bytes that are read at once: those of so many pages that threads can share them, and wait little
/// for the one that has the last.
const BYTES: u64 = 16 * PAGE as u64;

/// Whole pages, and the beginning of one more.
pub struct Part {
    /// Room for the end of the part before, which is shorter than a page, then what was read.
    buffer: Buffer,
    begin: usize,
    end: usize,
    /// Where it ends in the file.
    pub file_end: u64,
    /// Whether nothing follows.
    pub is_last: bool,
}

impl Part {
    /// Reads one of a file that has `len` bytes in whole blocks, to this buffer if it is long
    /// enough.
    pub async fn read(
        file: &File,
        offset: u64,
        len: u64,
        mut buffer: Buffer,
    ) -> Result<Part, Reason> {
        let bytes = len.saturating_sub(offset).min(BYTES);
        let end = PAGE + bytes as usize;
        if buffer.len() < end {
            buffer = Buffer::for_reading(end).map_err(|_| Reason::OutOfMemory)?;
        }
        let (buffer, read) = file.read_exact(buffer, PAGE..end, offset).await;
        read?;
        Ok(Part {
            buffer,
            begin: PAGE,
            end,
            file_end: offset + bytes,
            is_last: offset + bytes >= len,
        })
    }

    /// The same behind the bytes that were left of the part before: fewer than a page, in whole
    /// blocks.
    pub fn behind(mut self, left: &[u8]) -> Part {
        debug_assert!(left.len() < PAGE && left.len().is_multiple_of(BLOCK));
        self.begin = PAGE - left.len();
        self.buffer[self.begin..PAGE].copy_from_slice(left);
        self
    }

    /// Its memory, for another one.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }
}
