//! Records in key order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use timberline_tree::KeyRange;

use crate::location::Location;
use crate::read::Found;
use crate::snapshot::Open;
use crate::store::PENDING;
use crate::{Error, Store};

/// Reads that a scan has under way.
const AHEAD: usize = 16;

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// A key with its word in the index, or why there are no more.
pub(crate) type Listed = Result<(Vec<u8>, u64), Error>;

/// A key, and its record if it has one.
type Read = Pin<Box<dyn Future<Output = Result<(Vec<u8>, Option<Found>), Error>> + Send>>;

/// Records in key order, from either end: ascending by [`next`](Self::next), descending by
/// [`next_back`](Self::next_back).
///
/// That of a store is no snapshot. A record that is there all the time is returned once; one that
/// is put or deleted meanwhile may be or not; no key is returned twice. That of a
/// [`Snapshot`](crate::Snapshot) returns the records of its moment.
pub struct Scan {
    view: Arc<View>,
    keys: Box<dyn DoubleEndedIterator<Item = Listed> + Send>,
    front: VecDeque<Read>,
    back: VecDeque<Read>,
}

/// Which records a scan returns.
pub(crate) enum View {
    /// Those that the store has meanwhile.
    Now(Store),
    /// Those of a snapshot's moment.
    Then(Arc<Open>),
}

impl View {
    /// The record of a key that was listed with this word.
    async fn record(&self, key: &[u8], word: u64) -> Result<Option<Found>, Error> {
        match self {
            View::Now(store) => {
                if word != PENDING
                    && let Some(found) = store.inner.read(Location::from_word(word), key).await?
                {
                    return Ok(Some(found));
                }
                // It was moved or deleted meanwhile.
                store.inner.find(key).await
            }
            View::Then(open) => open.record(key, word).await,
        }
    }

    /// The value of a key's record; `None` if the key has none any more. One in pieces is read now.
    async fn value(&self, key: &[u8], mut found: Found) -> Result<Option<Vec<u8>>, Error> {
        match self {
            View::Now(store) => loop {
                if let Some(value) = store.whole(found, None).await? {
                    return Ok(Some(value));
                }
                // It was replaced meanwhile.
                match store.inner.find(key).await? {
                    Some(now) => found = now,
                    None => return Ok(None),
                }
            },
            View::Then(open) => open.whole(found).await,
        }
    }

    /// Whether a record with this time counts.
    fn shows(&self, expires: u64) -> bool {
        match self {
            View::Now(store) => store.inner.counts(expires),
            View::Then(open) => open.shows(expires),
        }
    }
}

impl Store {
    /// The records whose keys lie within bounds. It reads up to 16 records ahead, but no pieces.
    pub fn range(&self, bounds: impl KeyRange<[u8]>) -> Scan {
        self.scan(self.inner.index.range(bounds.low(), bounds.high()))
    }

    /// The records whose keys begin so.
    pub fn prefix(&self, prefix: &[u8]) -> Scan {
        self.scan(self.inner.index.prefix(prefix))
    }

    /// The keys that lie within bounds, in order. Reads no record; otherwise as [`Scan`].
    pub fn keys(
        &self,
        bounds: impl KeyRange<[u8]>,
    ) -> Box<dyn DoubleEndedIterator<Item = Vec<u8>> + Send> {
        let (store, keys) = (
            Arc::clone(&self.inner),
            self.inner.index.range(bounds.low(), bounds.high()),
        );
        let is_there = move |key: &[u8], word| {
            let may_be_over = Location::from_word(word).expires();
            word != PENDING && (!may_be_over || store.present(key).is_some())
        };
        Box::new(keys.filter_map(move |(key, word)| is_there(&key, word).then_some(key)))
    }

    fn scan(&self, keys: impl DoubleEndedIterator<Item = (Vec<u8>, u64)> + Send + 'static) -> Scan {
        Scan::new(View::Now(self.clone()), keys.map(Ok))
    }
}

impl Scan {
    pub(crate) fn new(
        view: View,
        keys: impl DoubleEndedIterator<Item = Listed> + Send + 'static,
    ) -> Scan {
        Scan {
            view: Arc::new(view),
            keys: Box::new(keys),
            front: VecDeque::new(),
            back: VecDeque::new(),
        }
    }

    /// The first record that was not returned; `None` at the end. After an error the next call goes
    /// on behind the record that could not be read.
    pub async fn next(&mut self) -> Option<Result<KeyValue, Error>> {
        loop {
            while self.front.len() < AHEAD
                && let Some(entry) = self.keys.next()
            {
                self.front.push_back(begun(&self.view, entry));
            }
            // Where both ends have met, the other one may have begun what is left.
            let read = self.front.pop_front().or_else(|| self.back.pop_back())?;
            if let Some(result) = self.current(read.await).await {
                return Some(result);
            }
        }
    }

    /// The last record that was not returned; as [`next`](Self::next).
    pub async fn next_back(&mut self) -> Option<Result<KeyValue, Error>> {
        loop {
            while self.back.len() < AHEAD
                && let Some(entry) = self.keys.next_back()
            {
                self.back.push_back(begun(&self.view, entry));
            }
            let read = self.back.pop_front().or_else(|| self.front.pop_back())?;
            if let Some(result) = self.current(read.await).await {
                return Some(result);
            }
        }
    }

    /// What was read, unless there was nothing, or it expired since.
    async fn current(
        &self,
        read: Result<(Vec<u8>, Option<Found>), Error>,
    ) -> Option<Result<KeyValue, Error>> {
        let (key, found) = match read {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        let found = found.filter(|it| self.view.shows(it.expires))?;
        let value = self.view.value(&key, found).await.transpose()?;
        Some(value.map(|value| (key, value)))
    }
}

/// The read of a record, which is asked for at once.
fn begun(view: &Arc<View>, entry: Listed) -> Read {
    let view = Arc::clone(view);
    let mut read: Read = Box::pin(async move {
        let (key, word) = entry?;
        let found = view.record(&key, word).await?;
        Ok((key, found))
    });
    // A future does nothing before it is polled. What it returns at once is kept.
    match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(result) => Box::pin(std::future::ready(result)),
        std::task::Poll::Pending => read,
    }
}
