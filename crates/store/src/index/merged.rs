//! Two iterators in order, as one.

/// A key, and its word.
type Entry = (Vec<u8>, u64);

/// The entries of two iterators, both in order of their keys, which have none in common.
pub(super) struct Merged<A, B>(Ends<A>, Ends<B>);

impl<A, B> Merged<A, B>
where
    A: DoubleEndedIterator<Item = Entry>,
    B: DoubleEndedIterator<Item = Entry>,
{
    pub fn new(a: A, b: B) -> Merged<A, B> {
        Merged(Ends::new(a), Ends::new(b))
    }
}

impl<A, B> Iterator for Merged<A, B>
where
    A: DoubleEndedIterator<Item = Entry>,
    B: DoubleEndedIterator<Item = Entry>,
{
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        match (self.0.first(), self.1.first()) {
            (Some(a), Some(b)) if a > b => self.1.front.take(),
            (Some(_), _) => self.0.front.take(),
            (None, _) => self.1.front.take(),
        }
    }
}

impl<A, B> DoubleEndedIterator for Merged<A, B>
where
    A: DoubleEndedIterator<Item = Entry>,
    B: DoubleEndedIterator<Item = Entry>,
{
    fn next_back(&mut self) -> Option<Entry> {
        match (self.0.last(), self.1.last()) {
            (Some(a), Some(b)) if a < b => self.1.back.take(),
            (Some(_), _) => self.0.back.take(),
            (None, _) => self.1.back.take(),
        }
    }
}

/// An iterator, and what was taken from its ends to be looked at.
struct Ends<I> {
    rest: I,
    front: Option<Entry>,
    back: Option<Entry>,
}

impl<I: DoubleEndedIterator<Item = Entry>> Ends<I> {
    fn new(rest: I) -> Ends<I> {
        Ends {
            rest,
            front: None,
            back: None,
        }
    }

    /// The key of the first entry, which is in front then.
    fn first(&mut self) -> Option<&[u8]> {
        if self.front.is_none() {
            self.front = self.rest.next().or_else(|| self.back.take());
        }
        self.front.as_ref().map(|it| &it.0[..])
    }

    /// The key of the last entry, which is at the back then.
    fn last(&mut self) -> Option<&[u8]> {
        if self.back.is_none() {
            self.back = self.rest.next_back().or_else(|| self.front.take());
        }
        self.back.as_ref().map(|it| &it.0[..])
    }
}
