//! Page frames of one tier: physical memory, in which neighbours are pages that came at the same
//! time.
//!
//! Invariant: a page has one frame in the tier that it is in, and none in the other.

use crate::pages::PageTable;

/// Which page is in each frame, and where each page is.
pub struct Frames {
    pages: Vec<Option<usize>>,
    frames: Vec<Option<usize>>,
    /// Free frames; the one that was freed last is used first, and of those never used the lowest.
    free: Vec<usize>,
}

impl Frames {
    /// `frames` free frames, for pages with numbers below `pages`.
    pub fn new(frames: usize, pages: usize) -> Frames {
        Frames {
            pages: vec![None; frames],
            frames: vec![None; pages],
            free: (0..frames).rev().collect(),
        }
    }

    pub fn page(&self, frame: usize) -> Option<usize> {
        self.pages[frame]
    }

    /// Reads and clears the accessed bit of the page in a frame; false where none is.
    pub fn take_accessed(&self, table: &mut PageTable, frame: usize) -> bool {
        self.pages[frame].is_some_and(|page| table.take_accessed(page))
    }

    /// Gives a page a frame. There is one for each page that the tier may hold.
    pub fn enter(&mut self, page: usize) {
        if let Some(frame) = self.free.pop() {
            self.pages[frame] = Some(page);
            self.frames[page] = Some(frame);
        }
    }

    /// Frees a page's frame.
    pub fn leave(&mut self, page: usize) {
        if let Some(frame) = self.frames[page].take() {
            self.pages[frame] = None;
            self.free.push(frame);
        }
    }
}
