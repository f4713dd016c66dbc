//! A node in the pool: its page's words, after a word that is the lock of a shared node. What is
//! behind its entries is of no account: it is neither written nor read.
//!
//! An inner node's image has a checksum, in the half word that follows its counts: a shared node is
//! read with one operation while others may be writing it, and a mixture of two images must not be
//! taken for one. Leaves have one writer and no checksum, so that one word of one can be written;
//! only those that several compute servers write have one.

use std::ops::Range;

use timberline_tree::btree::page::{Image, Page, PageBody, PageHead, PageImage};

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

/// The words of an image that are in use, without the lock: what is written.
pub(crate) fn written(image: &Image) -> Vec<u64> {
    image[1..used(image)].to_vec()
}

/// Lines of an image, of 64 bytes each. Entries do not span two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lines(u16);

impl Lines {
    pub const NONE: Lines = Lines(0);
    pub const ALL: Lines = Lines(u16::MAX);

    /// Words of a line.
    const WORDS: usize = WORDS / u16::BITS as usize;

    /// Those of a set.
    pub fn of_bits(bits: u16) -> Lines {
        Lines(bits)
    }

    /// The set.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// That of an entry.
    pub fn of_entry(index: usize) -> Lines {
        Lines(1 << (PageBody::image_index(index) / Self::WORDS))
    }

    /// Those of some entries.
    pub fn of_entries(indices: impl IntoIterator<Item = usize>) -> Lines {
        let lines = indices.into_iter().map(Lines::of_entry);
        lines.fold(Lines::NONE, |all, it| Lines(all.0 | it.0))
    }

    /// The words of an image from the first line to the last that are in use, without the lock.
    fn words_of(self, image: &Image) -> Range<usize> {
        let end = Self::WORDS * (u16::BITS - self.0.leading_zeros()) as usize;
        let first = Self::WORDS * self.0.trailing_zeros() as usize;
        let end = end.min(used(image));
        first.max(1).min(end)..end
    }
}

/// Where in a node the words from the first of these lines to the last are, and what is written
/// there: one run, as an operation takes longer than a few more bytes. All words in use, if there
/// is a checksum.
pub(crate) fn written_lines(image: &Image, sums: Sums, lines: Lines) -> (u64, Vec<u64>) {
    let [_, height, ..] = image[COUNTS].to_le_bytes();
    let lines = if sums.has(height) { Lines::ALL } else { lines };
    let words = lines.words_of(image);
    (8 * words.start as u64, image[words].to_vec())
}

/// How many words of an image are in use.
fn used(image: &Image) -> usize {
    let count = PageHead::of(image).map_or(Page::CAPACITY, PageHead::count);
    PageBody::image_index(count)
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

/// Of all words in use but the lock and the checksum itself.
fn checksum(image: &Image) -> u32 {
    let mut words = image.map(u64::to_le);
    words[COUNTS] = (image[COUNTS] & u64::from(u32::MAX)).to_le();
    crc32c::crc32c(bytemuck::cast_slice(&words[1..used(image)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_changed() {
        let page = Page::new();
        let lock = page.lock();
        for index in 0..40 {
            lock.insert(index, index as u64, 7);
        }
        let image = image_of(&lock, Sums::Inner, |word| word);
        let written = |lines| {
            let (at, words) = written_lines(&image, Sums::Inner, lines);
            (at, words.len())
        };
        assert_eq!(written(Lines::ALL), (8, 3 + 80));
        assert_eq!(
            written_lines(&image, Sums::Inner, Lines::ALL).1,
            image[1..84]
        );
        // Four entries a line, but in the first.
        assert_eq!(written(Lines::of_entry(0)), (8, 7));
        assert_eq!(written(Lines::of_entry(2)), (64, 8));
        assert_eq!(written(Lines::of_entries([2, 9])), (64, 16));
        assert_eq!(written(Lines::of_entry(39)), (640, 4));
        // A line that is not in use any more.
        assert_eq!(written(Lines::of_entry(61)), (672, 0));
        let all = written_lines(&image, Sums::All, Lines::of_entry(2));
        assert_eq!((all.0, all.1.len()), (8, 83));
    }
}
