//! The keys of a moment in order, from both ends.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::Open;
use super::moment::{End, Entry, Way};
use crate::Error;

/// Keys with their words. An error is the last item.
pub struct Listing {
    open: Arc<Open>,
    /// The keys in between that were not looked at yet; `None` when there are none.
    unread: Option<(End, End)>,
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
}

impl Listing {
    pub fn new(open: Arc<Open>, low: End, high: End) -> Listing {
        Listing {
            open,
            unread: Some((low, high)),
            front: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// Looks at the next keys from one end, of which none are known, until there is one.
    fn read(&mut self, way: Way) -> Result<(), Error> {
        while let Some((low, high)) = self.unread.take() {
            let index = &*self.open.store.inner.index;
            let (entries, last) = self.open.moment.list(index, way, (&low, &high))?;
            self.unread = last.map(|last| match way {
                Way::Up => (Bound::Excluded(last), high),
                Way::Down => (low, Bound::Excluded(last)),
            });
            let any = !entries.is_empty();
            match way {
                Way::Up => self.front.extend(entries),
                Way::Down => self.back.extend(entries),
            }
            if any {
                break;
            }
        }
        Ok(())
    }
}

impl Iterator for Listing {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_empty()
            && let Err(error) = self.read(Way::Up)
        {
            self.back.clear();
            return Some(Err(error));
        }
        // Where both ends have met, the other one has what is left.
        let next = self.front.pop_front().or_else(|| self.back.pop_front());
        next.map(Ok)
    }
}

impl DoubleEndedIterator for Listing {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty()
            && let Err(error) = self.read(Way::Down)
        {
            self.front.clear();
            return Some(Err(error));
        }
        let next = self.back.pop_back().or_else(|| self.front.pop_back());
        next.map(Ok)
    }
}
