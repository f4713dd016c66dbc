//! A value's word that no leaf has any more.
#![allow(unsafe_code)]

use timberline_tier::Arenas;

/// Releases what a value's word owns: its block, or its count.
///
/// # Safety
/// The word was put into a leaf of a map whose values are represented so, in these arenas. No leaf
/// has it any more, and no thread is pinned that may have read it in one. It is called once for it.
pub type Dispose = unsafe fn(word: u64, arenas: &Arenas);

/// A value's word that was taken out of its leaf. Readers that came to it before may still look at
/// what it owns.
#[must_use = "it is to be disposed of once its readers are gone"]
pub struct RetiredValue {
    word: u64,
    dispose: Dispose,
}

impl RetiredValue {
    /// The word that the caller has taken out of its leaf, in a map whose values are disposed of
    /// so.
    pub fn new(word: u64, dispose: Dispose) -> Self {
        RetiredValue { word, dispose }
    }

    /// Releases what it owns. Its readers are gone, as the epoch says, or the map ends.
    pub fn dispose(self, arenas: &Arenas) {
        // SAFETY: whoever took the word out of its leaf retired it, once; its readers are gone.
        unsafe { (self.dispose)(self.word, arenas) }
    }
}
