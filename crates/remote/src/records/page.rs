//! Pages: blocks of the pool to which no place leads. Who writes one remembers where it is.
//!
//! A page is never changed. Each has a stamp of its own, in the place of a block's place: so what
//! reads a page that was freed, and whose memory may be used again, sees that.

use std::sync::atomic::Ordering::Relaxed;

use super::Records;
use super::block::{Block, Record, Word};
use crate::error::{Error, Result};

/// Bits of a stamp that count the pages of a compute server.
const COUNT_BITS: u32 = 40;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    word: Word,
    stamp: u64,
}

impl Page {
    /// Bytes of what a page is remembered by.
    pub const BYTES: usize = 16;

    pub fn bytes(self) -> [u8; Page::BYTES] {
        let mut bytes = [0; Page::BYTES];
        bytes[..8].copy_from_slice(&self.word.word().to_le_bytes());
        bytes[8..].copy_from_slice(&self.stamp.to_le_bytes());
        bytes
    }

    pub fn of_bytes(bytes: &[u8; Page::BYTES]) -> Page {
        let [word, stamp] = bytes.as_chunks().0 else {
            unreachable!("two words");
        };
        Page {
            word: Word::of_word(u64::from_le_bytes(*word)),
            stamp: u64::from_le_bytes(*stamp),
        }
    }
}

impl Records {
    /// Writes a page.
    ///
    /// # Errors
    /// It is too long, the pool is full, or a memory server does not answer.
    pub(super) async fn write_page(&self, bytes: Vec<u8>) -> Result<Page> {
        let number = self.pages.fetch_add(1, Relaxed);
        // A member's number is nobody's after it.
        let stamp = self.member.compute().number() << COUNT_BITS | number;
        let block = Block {
            records: vec![Record {
                key: Vec::new(),
                value: bytes,
                marked: false,
            }],
        };
        let word = self.write_block(stamp, &block).await?;
        Ok(Page { word, stamp })
    }

    /// The bytes of a page, which nobody frees meanwhile.
    ///
    /// # Errors
    /// It was freed, since this compute server was taken for dead; or a memory server does not
    /// answer.
    pub(super) async fn read_page(&self, page: Page) -> Result<Vec<u8>> {
        let block = self.read(page.stamp, page.word).await?;
        let record = block.and_then(|mut it| it.records.pop());
        match record {
            Some(record) => Ok(record.value),
            None => {
                self.tree().check_lease()?;
                Err(Error::Damaged(page.word.address()))
            }
        }
    }

    /// Frees a page.
    pub(super) async fn free_page(&self, page: Page) {
        self.free(page.stamp, page.word).await;
    }
}
