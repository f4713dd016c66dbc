//! A node in the pool: its page's words, after a word that is the lock of a shared node.
//!
//! An inner node's image has a checksum, in the half word that follows its counts: a shared node is
//! read with one operation while others may be writing it, and a mixture of two images must not be
//! taken for one. Leaves have one writer and no checksum, so that one word of one can be written.

use timberline_tree::btree::page::{Image, Page, PageBody};

use crate::address::Address;
use crate::error::{Error, Result};

/// The word of an image with the counts and the checksum.
const COUNTS: usize = 1;

/// The bytes of the lock, before what is written of a node.
pub(super) const LOCK_BYTES: u64 = 8;

/// The image of a page. Each word of an inner one is what `name` makes of it.
pub(super) fn image_of(body: &PageBody, name: impl Fn(u64) -> u64) -> Image {
    let mut image = body.image(name);
    if body.height() > 0 {
        image[COUNTS] |= u64::from(checksum(&image)) << 32;
    }
    image
}

/// The words of an image without the lock: what is written.
pub(super) fn written(image: &Image) -> Vec<u64> {
    image[1..].to_vec()
}

/// The words that were read, as a node.
///
/// # Errors
/// They are none. Another server may just be writing them.
pub(super) fn page_of(words: &[u64], at: Address) -> Result<Page> {
    let not_a_node = Error::NotANode(at);
    let mut image: Image = words.try_into().map_err(|_| not_a_node.clone())?;
    let sum = (image[COUNTS] >> 32) as u32;
    image[COUNTS] &= u64::from(u32::MAX);
    let page = Page::of(&image).map_err(|_| not_a_node.clone())?;
    let is_inner = page.lock().height() > 0;
    if is_inner && sum != checksum(&image) {
        return Err(not_a_node);
    }
    Ok(page)
}

/// Cuts off a node's entries above a key. Its parent has the node end there, and is newer: whoever
/// split the node died before the node itself was written.
pub(super) fn trim(page: &Page, upper: u64) {
    let lock = page.lock();
    if upper < lock.upper() && lock.lower() <= upper {
        let rest = Page::new();
        let from = (0..lock.count()).take_while(|&index| lock.key(index) <= upper);
        lock.split_to(from.count(), upper + 1, &rest.lock());
    }
}

/// Of all words but the lock, the checksum's half word being 0.
fn checksum(image: &Image) -> u32 {
    image[1..].iter().fold(0, |sum, word| {
        crc32c::crc32c_append(sum, &word.to_le_bytes())
    })
}
