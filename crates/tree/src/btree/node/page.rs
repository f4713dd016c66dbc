//! A node whose payloads are only numbers, for trees that keep their nodes elsewhere.
//!
//! The layout and the search are those of all nodes of the B+tree. But a [`Page`] is owned by its
//! user, no map links to it, and nothing follows its payloads: what the children of an inner page
//! are called, its user decides. So all of this is safe.

use std::ops::Deref;

use timberline_sync::{Restart, Snapshot};

use super::super::NODE_1K;
use super::{Body, LockedNode, Node, Write};

/// What a page holds.
pub type PageBody = Body<NODE_1K>;

/// A page's words as they travel: a word for the user, then the page's own.
pub type Image = [u64; Page::WORDS];

/// Words of an image before the entries: the user's, the counts, the fences.
const FIRST_ENTRY: usize = super::HEADER / 8;

/// A node of 1 KiB behind its optimistic lock.
#[derive(Debug)]
#[repr(transparent)]
pub struct Page(Node<NODE_1K>);

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}

impl Page {
    /// The size in bytes, also of an image.
    pub const BYTES: usize = PageBody::BYTES;
    /// The words of an image.
    pub const WORDS: usize = Self::BYTES / 8;
    /// The most entries.
    pub const CAPACITY: usize = PageBody::CAPACITY;

    /// An empty leaf for all keys.
    pub fn new() -> Page {
        let page = Page(Node::new(PageBody::default()));
        page.lock().reset(0, 0, u64::MAX);
        page
    }

    /// A page with an image's content.
    ///
    /// # Errors
    /// The image is no page's: its counts or the order of its keys are impossible.
    pub fn of(image: &Image) -> Result<Page, Malformed> {
        let page = Page::new();
        page.lock().load(image)?;
        Ok(page)
    }

    /// Starts an optimistic read. Waits while a writer holds the lock.
    #[inline(always)]
    pub fn read(&self) -> PageView<'_> {
        // A page is never retired.
        PageView(self.0.read_last())
    }

    /// Locks for writing. Waits while another writer holds the lock.
    pub fn lock(&self) -> PageLock<'_> {
        loop {
            if let Ok(lock) = self.read().upgrade() {
                return lock;
            }
        }
    }
}

/// A reader's view of a page at one version.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a>(Snapshot<'a, PageBody>);

impl<'a> PageView<'a> {
    /// Computes something from the page, which may be changing meanwhile.
    ///
    /// # Errors
    /// The page changed since the view was taken, so the result is dropped.
    #[inline(always)]
    pub fn get<R>(&self, compute: impl FnOnce(&PageBody) -> R) -> Result<R, Restart> {
        self.0.get(compute)
    }

    /// Whether the page is unchanged.
    ///
    /// # Errors
    /// The page changed.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        self.0.validate()
    }

    /// Locks, if the page is unchanged since the view was taken.
    ///
    /// # Errors
    /// The page changed, or a writer holds the lock.
    pub fn upgrade(self) -> Result<PageLock<'a>, Restart> {
        self.0.upgrade().map(PageLock)
    }
}

/// An image that is no page's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// The only writer of a page; unlocks when dropped.
#[derive(Debug)]
pub struct PageLock<'a>(LockedNode<'a, NODE_1K>);

impl Deref for PageLock<'_> {
    type Target = PageBody;

    fn deref(&self) -> &PageBody {
        &self.0
    }
}

impl PageLock<'_> {
    /// Makes this an empty page for the keys from `lower` to `upper`, both inclusive.
    pub fn reset(&self, height: u8, lower: u64, upper: u64) {
        self.0.reset(0, height, lower, upper);
    }

    /// Takes an image's content.
    ///
    /// # Errors
    /// The image is no page's. This page is unchanged then.
    pub fn load(&self, image: &Image) -> Result<(), Malformed> {
        let view = PageImage::of(image)?;
        if !view.keys.is_sorted_by(|a, b| a < b) {
            return Err(Malformed);
        }
        self.reset(view.height(), view.lower(), view.upper());
        for (index, &key) in view.keys.iter().enumerate() {
            self.0.push_word(key, view.word(index));
        }
        Ok(())
    }

    /// Inserts an entry before `index`; the page is not full.
    pub fn insert(&self, index: usize, key: u64, word: u64) {
        assert!(index <= self.count() && self.count() < Page::CAPACITY);
        self.0.insert_word(index, key, word);
    }

    /// Replaces an entry's word. Returns the one before.
    pub fn replace(&self, index: usize, word: u64) -> u64 {
        assert!(index < self.count());
        self.0.swap_word(index, word)
    }

    /// Removes an entry. Returns its word.
    pub fn remove(&self, index: usize) -> u64 {
        assert!(index < self.count());
        let word = self.0.word(index);
        self.0.remove_entry(index);
        word
    }

    /// Moves the entries from `from` on, and the keys from there on, to an empty page.
    pub fn split_to(&self, from: usize, lower: u64, right: &PageLock<'_>) {
        assert!(from <= self.count());
        right.reset(self.height(), lower, self.upper());
        self.0.move_tail(from, &right.0);
        self.0.set_upper(lower - 1);
    }

    /// Moves all entries, and the keys, of the page to the left of this to it.
    pub fn merge_to(&self, left: &PageLock<'_>) {
        assert!(left.count() + self.count() <= Page::CAPACITY);
        left.0.set_upper(self.upper());
        self.0.move_head(self.count(), &left.0);
    }

    /// Unlocks under the same version: the page is unchanged, so readers need not restart.
    pub fn unchanged(self) {
        self.0.unchanged();
    }
}

/// A page's image, to be read in place.
#[derive(Clone, Copy, Debug)]
pub struct PageImage<'a> {
    image: &'a Image,
    keys: &'a [u64],
}

impl<'a> PageImage<'a> {
    /// Looks at an image. Whether its keys are in order is not checked.
    ///
    /// # Errors
    /// The image is no page's: its counts or its fences are impossible.
    pub fn of(image: &'a Image) -> Result<PageImage<'a>, Malformed> {
        let [count, ..] = image[1].to_le_bytes();
        let keys = &image[FIRST_ENTRY..][..Page::CAPACITY];
        let keys = keys.get(..count.into()).ok_or(Malformed)?;
        let view = PageImage { image, keys };
        let is_empty = view.height() > 0 && keys.is_empty();
        match view.lower() > view.upper() || is_empty {
            true => Err(Malformed),
            false => Ok(view),
        }
    }

    /// 0 for a leaf.
    pub fn height(&self) -> u8 {
        self.image[1].to_le_bytes()[1]
    }

    /// Its lowest key.
    pub fn lower(&self) -> u64 {
        self.image[2]
    }

    /// Its highest key.
    pub fn upper(&self) -> u64 {
        self.image[3]
    }

    /// The entry of a key, if it is there.
    pub fn find(&self, key: u64) -> Option<usize> {
        let index = self.keys.partition_point(|&it| it < key);
        (self.keys.get(index) == Some(&key)).then_some(index)
    }

    /// The entry of the child with a key, in an inner page.
    pub fn child_for(&self, key: u64) -> usize {
        let after = self.keys.partition_point(|&it| it <= key);
        after.saturating_sub(1)
    }

    /// The payload of an entry.
    pub fn word(&self, index: usize) -> u64 {
        self.image[PageBody::image_index(index)]
    }
}

impl PageBody {
    /// The page's words, the user's being 0. Each payload of an inner page is what `name` makes of
    /// it.
    pub fn image(&self, name: impl Fn(u64) -> u64) -> Image {
        let mut image = [0; Page::WORDS];
        image[1] = u64::from_le_bytes([self.count() as u8, self.height(), 0, 0, 0, 0, 0, 0]);
        (image[2], image[3]) = (self.lower(), self.upper());
        let (keys, words) = image[FIRST_ENTRY..].split_at_mut(Page::CAPACITY);
        let is_inner = self.height() > 0;
        for (index, (key, word)) in self.entries(0..self.count()).enumerate() {
            keys[index] = key;
            words[index] = if is_inner { name(word) } else { word };
        }
        image
    }

    /// The index in an image of an entry's payload.
    pub fn image_index(index: usize) -> usize {
        FIRST_ENTRY + Page::CAPACITY + index
    }
}

impl<const WORDS: usize> Body<WORDS> {
    /// The payload of an entry as a number.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.payload(index)
    }

    /// The records of a leaf from `key` on, or an inner page's children.
    pub fn records(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries(0..self.count())
    }
}

impl<const WORDS: usize> Default for Body<WORDS> {
    fn default() -> Self {
        use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
        Body {
            count: AtomicU8::new(0),
            height: AtomicU8::new(0),
            heat: AtomicU16::new(0),
            layer: AtomicU32::new(0),
            lower: AtomicU64::new(0),
            upper: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Search;
    use super::*;

    #[test]
    fn an_image_is_what_it_was_made_of() {
        let page = Page::new();
        let lock = page.lock();
        for key in 0..40 {
            lock.insert(key as usize, key * 3, key + 100);
        }
        let right = Page::new();
        lock.split_to(20, 60, &right.lock());
        drop(lock);
        let image = right.read().get(|body| body.image(|word| word)).unwrap();
        let copy = Page::of(&image).unwrap();
        let body = copy.lock();
        let records: Vec<_> = body.records().collect();
        assert_eq!(
            records,
            (20..40).map(|key| (key * 3, key + 100)).collect::<Vec<_>>()
        );
        assert_eq!((body.lower(), body.upper()), (60, u64::MAX));
        let found = body.find(Search::NAIVE, 63).map(|hit| hit.index());
        assert_eq!(found, Ok(1));
        right.lock().merge_to(&page.lock());
        assert_eq!(page.lock().count(), 40);
        assert_eq!(page.lock().upper(), u64::MAX);
    }

    #[test]
    fn impossible_images_are_refused() {
        let page = Page::new();
        page.lock().insert(0, 5, 1);
        page.lock().insert(1, 7, 2);
        let image = page.lock().image(|word| word);
        for (index, word) in [(1, 63), (2, u64::MAX), (FIRST_ENTRY, 9), (1, 0x0100)] {
            let mut other = image;
            other[index] = word;
            if index == 2 {
                other[3] = 0;
            }
            assert_eq!(page.lock().load(&other), Err(Malformed), "word {index}");
        }
        assert_eq!(page.lock().count(), 2);
    }
}
