//! A node in the pool: its page's words, after a word that is the lock of a shared node.
//!
//! An inner node's image has a checksum, in the half word that follows its counts: a shared node is
//! read with one operation while others may be writing it, and a mixture of two images must not be
//! taken for one. Leaves have one writer and no checksum, so that one word of one can be written;
//! only those that several compute servers write have one.

use timberline_tree::btree::page::{Image, Page, PageBody, PageImage};

use crate::address::Address;
use crate::error::{Error, Result};

/// The words of a node.
pub(crate) const WORDS: usize = Page::WORDS;

/// The most entries of a node.
pub(crate) const ENTRIES: usize = Page::CAPACITY;

/// The word of an image with the counts and the checksum.
const COUNTS: usize = 1;

/// Where that word is, in bytes.
pub(crate) const COUNTS_AT: u64 = 8 * COUNTS as u64;

/// Which nodes have checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sums {
    /// Inner ones.
    Inner,
    /// All.
    All,
}

impl Sums {
    fn has(self, height: u8) -> bool {
        height > 0 || self == Sums::All
    }
}

/// The bytes of the lock, before what is written of a node.
pub(crate) const LOCK_BYTES: u64 = 8;

/// The image of a page. Each word of an inner one is what `name` makes of it.
pub(crate) fn image_of(body: &PageBody, sums: Sums, name: impl Fn(u64) -> u64) -> Image {
    let mut image = body.image(name);
    if sums.has(body.height()) {
        image[COUNTS] |= u64::from(checksum(&image)) << 32;
    }
    image
}

/// The words of an image without the lock: what is written.
pub(crate) fn written(image: &Image) -> Vec<u64> {
    image[1..].to_vec()
}

/// The words that were read, as a node.
///
/// # Errors
/// They are none. Another server may just be writing them.
pub(crate) fn page_of(words: &[u64], sums: Sums, at: Address) -> Result<Page> {
    let image: Option<&Image> = words.try_into().ok();
    let is_whole = |image: &&Image| view_of(image, sums).is_some();
    let page = image.filter(is_whole).and_then(|it| Page::of(it).ok());
    page.ok_or(Error::NotANode(at))
}

/// A node to be read in place, if the image is one, and whole if it has a checksum.
pub(crate) fn view_of(image: &Image, sums: Sums) -> Option<PageImage<'_>> {
    let view = PageImage::of(image).ok()?;
    let sum = (image[COUNTS] >> 32) as u32;
    (!sums.has(view.height()) || sum == checksum(image)).then_some(view)
}

/// Cuts off a node's entries above a key. Its parent has the node end there, and is newer: whoever
/// split the node died before the node itself was written.
pub(crate) fn trim(page: &Page, upper: u64) {
    let lock = page.lock();
    if upper < lock.upper() && lock.lower() <= upper {
        let rest = Page::new();
        let from = (0..lock.count()).take_while(|&index| lock.key(index) <= upper);
        lock.split_to(from.count(), upper + 1, &rest.lock());
    }
}

/// Of all words but the lock and the checksum itself.
fn checksum(image: &Image) -> u32 {
    let mut words = image.map(u64::to_le);
    words[COUNTS] = (image[COUNTS] & u64::from(u32::MAX)).to_le();
    crc32c::crc32c(bytemuck::cast_slice(&words[1..]))
}
