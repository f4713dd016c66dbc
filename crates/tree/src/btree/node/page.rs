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

/// A page's words as they travel: a word for the user, the counts, the fences, then a key and a
/// payload for each entry. So any entries are one run of words, and so is all that is in use.
pub type Image = [u64; Page::WORDS];

/// Words of an image before the entries.
const FIRST_ENTRY: usize = super::HEADER / 8;

/// The fences of an image.
const LOWER: usize = 2;
const UPPER: usize = 3;

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
        self.load_part(&PageImage::of(image)?)
    }

    fn load_part(&self, view: &PageImage<'_>) -> Result<(), Malformed> {
        if !view.keys().is_sorted_by(|a, b| a < b) {
            return Err(Malformed);
        }
        self.reset(view.height(), view.lower(), view.upper());
        for entry in view.entries {
            self.0.push_word(entry[0], entry[1]);
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
    counts: u64,
    lower: u64,
    upper: u64,
    /// A key and a payload each.
    entries: &'a [[u64; 2]],
}

impl<'a> PageImage<'a> {
    /// Looks at an image. Whether its keys are in order is not checked.
    ///
    /// # Errors
    /// The image is no page's: its counts or its fences are impossible.
    pub fn of(image: &'a Image) -> Result<PageImage<'a>, Malformed> {
        let (head, entries) = image.split_at(FIRST_ENTRY);
        let (entries, _) = entries.as_chunks();
        let count = PageHead::of(head)?.count();
        let view = PageImage {
            counts: image[1],
            lower: image[LOWER],
            upper: image[UPPER],
            entries: &entries[..count],
        };
        let is_empty = view.height() > 0 && count == 0;
        match is_empty {
            true => Err(Malformed),
            false => Ok(view),
        }
    }

    /// 0 for a leaf.
    pub fn height(&self) -> u8 {
        self.counts.to_le_bytes()[1]
    }

    /// Its lowest key.
    pub fn lower(&self) -> u64 {
        self.lower
    }

    /// Its highest key.
    pub fn upper(&self) -> u64 {
        self.upper
    }

    /// How many entries it has.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn keys(&self) -> impl Iterator<Item = u64> + 'a {
        self.entries.iter().map(|entry| entry[0])
    }

    /// The entry of a key, if it is there.
    pub fn find(&self, key: u64) -> Option<usize> {
        let index = self.entries.partition_point(|it| it[0] < key);
        let entry = self.entries.get(index)?;
        (entry[0] == key).then_some(index)
    }

    /// The entry of the child with a key, in an inner page.
    pub fn child_for(&self, key: u64) -> usize {
        let after = self.entries.partition_point(|it| it[0] <= key);
        after.saturating_sub(1)
    }

    /// The payload of an entry.
    pub fn word(&self, index: usize) -> u64 {
        self.entries[index][1]
    }
}

/// The words of an image before its entries.
#[derive(Clone, Copy, Debug)]
pub struct PageHead<'a>(&'a [u64]);

impl<'a> PageHead<'a> {
    /// The words, of which the image has as many before its entries.
    pub const WORDS: usize = FIRST_ENTRY;

    /// Looks at them.
    ///
    /// # Errors
    /// They are no page's: the counts or the fences are impossible.
    pub fn of(words: &'a [u64]) -> Result<PageHead<'a>, Malformed> {
        let head = PageHead(words.get(..FIRST_ENTRY).ok_or(Malformed)?);
        match head.count() > Page::CAPACITY || words[LOWER] > words[UPPER] {
            true => Err(Malformed),
            false => Ok(head),
        }
    }

    /// How many entries the page has.
    pub fn count(self) -> usize {
        self.0[1].to_le_bytes()[0].into()
    }

    /// A part of a leaf: the entries from `first` on of which these words are the keys and
    /// payloads. It is a leaf whose fences are the keys that it tells of.
    ///
    /// # Errors
    /// The words tell of no keys, are not in order, or the page is no leaf.
    pub fn part(self, first: usize, words: &[u64]) -> Result<Page, Malformed> {
        let (entries, _) = words.as_chunks();
        let left = self.count().saturating_sub(first);
        let is_to_the_end = left <= entries.len();
        let mut view = PageImage {
            counts: self.0[1],
            lower: self.0[LOWER],
            upper: self.0[UPPER],
            entries: &entries[..left.min(entries.len())],
        };
        if first > 0 {
            view.lower = view.keys().next().ok_or(Malformed)?;
        }
        if !is_to_the_end {
            view.upper = view.keys().last().ok_or(Malformed)?;
        }
        if view.height() > 0 || view.lower > view.upper {
            return Err(Malformed);
        }
        let page = Page::new();
        page.lock().load_part(&view)?;
        Ok(page)
    }
}

impl PageBody {
    /// The page's words, the user's being 0. Each payload of an inner page is what `name` makes of
    /// it.
    pub fn image(&self, name: impl Fn(u64) -> u64) -> Image {
        let mut image = [0; Page::WORDS];
        image[1] = u64::from_le_bytes([self.count() as u8, self.height(), 0, 0, 0, 0, 0, 0]);
        (image[LOWER], image[UPPER]) = (self.lower(), self.upper());
        let (entries, _) = image[FIRST_ENTRY..].as_chunks_mut();
        let is_inner = self.height() > 0;
        for (entry, (key, word)) in entries.iter_mut().zip(self.entries(0..self.count())) {
            *entry = [key, if is_inner { name(word) } else { word }];
        }
        image
    }

    /// The index in an image of an entry's key, which its payload follows; of the first word
    /// behind all entries, if there are so many.
    pub fn image_index(index: usize) -> usize {
        FIRST_ENTRY + 2 * index
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
        for (index, word) in [(1, 63), (LOWER, u64::MAX), (FIRST_ENTRY, 9), (1, 0x0100)] {
            let mut other = image;
            other[index] = word;
            if index == LOWER {
                other[UPPER] = 0;
            }
            assert_eq!(page.lock().load(&other), Err(Malformed), "word {index}");
        }
        assert_eq!(page.lock().count(), 2);
    }

    #[test]
    fn a_part_has_the_keys_it_tells_of() {
        let page = Page::new();
        let lock = page.lock();
        lock.reset(0, 5, 1_000);
        for index in 0..10 {
            lock.insert(index, 10 * index as u64 + 10, index as u64);
        }
        let image = lock.image(|word| word);
        drop(lock);
        let head = PageHead::of(&image).unwrap();
        assert_eq!(head.count(), 10);
        let part = |first, end| {
            let words = PageBody::image_index(first)..PageBody::image_index(end);
            head.part(first, &image[words])
        };
        for (first, end, fences) in [
            (0, 10, (5, 1_000)),
            (0, 62, (5, 1_000)),
            (0, 4, (5, 40)),
            (3, 7, (40, 70)),
            (3, 62, (40, 1_000)),
            (9, 10, (100, 1_000)),
        ] {
            let page = part(first, end).unwrap();
            let body = page.lock();
            assert_eq!((body.lower(), body.upper()), fences, "{first} to {end}");
            let keys: Vec<u64> = body.records().map(|(key, _)| key).collect();
            let expected = first..end.min(10);
            assert_eq!(
                keys,
                expected
                    .map(|index| 10 * index as u64 + 10)
                    .collect::<Vec<_>>()
            );
        }
        assert!(part(10, 12).is_err() && part(4, 4).is_err());
        page.lock().reset(0, 5, 9);
        let image = page.lock().image(|word| word);
        let empty = PageHead::of(&image).unwrap().part(0, &[]).unwrap();
        let empty = empty.lock();
        assert_eq!((empty.count(), empty.upper()), (0, 9));
    }
}
