//! Writing large values.

use std::ops::Deref;
use std::sync::Arc;

use super::{Descriptor, MAX_VALUE, Value, piece_key};
use crate::log::{Appended, NewRecord};
use crate::record::Kind;
use crate::store::Inner;
use crate::{Error, Expiry, Store};

/// Writes a value piece by piece, so that it is never in memory as a whole
/// ([`Store::writer`]). Dropped before [`commit`](Self::commit), it has changed nothing.
pub struct ValueWriter {
    store: Store,
    key: Vec<u8>,
    expiry: Expiry,
    /// What is not in a piece yet, at most one of them.
    buffer: Vec<u8>,
    pending: Pending<Arc<Inner>>,
}

impl Store {
    /// Begins to write a value of up to [`MAX_VALUE`](crate::MAX_VALUE) bytes, which is fed in
    /// parts of any size. The key has it from [`commit`](ValueWriter::commit) on; until then the
    /// key keeps what it has, and what is written takes space on the disk. The writer takes memory
    /// for one piece, up to 1 MiB.
    pub fn writer(&self, key: &[u8], expiry: Expiry) -> ValueWriter {
        ValueWriter {
            store: self.clone(),
            key: key.into(),
            expiry,
            buffer: Vec::new(),
            pending: Pending::new(Arc::clone(&self.inner)),
        }
    }
}

impl ValueWriter {
    /// Appends bytes to the value.
    ///
    /// # Errors
    /// As [`Store::put`]. Then the writer is of no use any more.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let inner = &self.store.inner;
        inner.check_key(&self.key, Descriptor::BYTES, self.expiry != Expiry::Never)?;
        let len = self.len() + bytes.len() as u64;
        if len > MAX_VALUE as u64 {
            return Err(Error::ValueTooLong(len as usize, MAX_VALUE));
        }
        let piece = inner.log.options().piece();
        while !bytes.is_empty() {
            // A piece is written when more follows: a value of one piece has none.
            if self.buffer.len() == piece {
                self.pending.append(&self.key, &self.buffer).await?;
                self.buffer.clear();
            }
            let (first, rest) = bytes.split_at(bytes.len().min(piece - self.buffer.len()));
            let reserved = self.buffer.try_reserve(first.len());
            reserved.map_err(|_| Error::OutOfMemory)?;
            self.buffer.extend_from_slice(first);
            bytes = rest;
        }
        Ok(())
    }

    /// Bytes that were written.
    pub fn len(&self) -> u64 {
        self.pending.len() + self.buffer.len() as u64
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the key the value that was written, at once and as a whole. A time after which it
    /// expires begins now.
    ///
    /// # Errors
    /// As [`Store::put`]; then the key keeps what it has.
    pub async fn commit(mut self) -> Result<(), Error> {
        let inner = &self.store.inner;
        let expires = inner.time_of(self.expiry);
        if self.pending.len() == 0 {
            let entry = NewRecord::put(&self.key, &self.buffer, expires);
            return inner.write(&[entry], |_| true).await.map(|_| ());
        }
        self.pending.append(&self.key, &self.buffer).await?;
        self.pending.commit(&self.key, expires).await
    }
}

/// A value that is being written. Dropped, it gives its pieces up.
pub(crate) struct Pending<I: Deref<Target = Inner>> {
    inner: I,
    value: Option<Arc<Value>>,
}

impl<I: Deref<Target = Inner>> Pending<I> {
    pub fn new(inner: I) -> Pending<I> {
        Pending { inner, value: None }
    }

    /// The value, if it has a piece.
    pub fn value(&self) -> Option<&Arc<Value>> {
        self.value.as_ref()
    }

    fn len(&self) -> u64 {
        self.value.as_ref().map_or(0, |it| it.descriptor().len)
    }

    /// Writes all pieces of a value.
    pub async fn append_all(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        for piece in value.chunks(self.inner.log.options().piece()) {
            self.append(key, piece).await?;
        }
        Ok(())
    }

    /// Appends a piece.
    async fn append(&mut self, key: &[u8], piece: &[u8]) -> Result<(), Error> {
        let inner = &*self.inner;
        while inner.is_index_full() {
            match inner.no_place::<()>(Error::OutOfMemory)? {
                Appended::NotNow(changes) => inner.log.wait_for_change(changes).await,
                Appended::At(()) | Appended::Refused => break,
            }
        }
        loop {
            let changes = {
                let (id, number) = match &self.value {
                    Some(value) => (value.id, value.descriptor().count() as u32),
                    None => (0, 0),
                };
                let name = piece_key(id, number);
                let entry = NewRecord::piece(&name, piece);
                let value = &mut self.value;
                let appended = inner.log.append(
                    &[entry],
                    |_| false,
                    |_, (location, _), sequence| {
                        let value = value.get_or_insert_with(|| {
                            let most = inner.log.options().piece();
                            let value = Arc::new(Value::new(sequence, key, most));
                            inner.large.begin(Arc::clone(&value));
                            value
                        });
                        inner.large.add(value, location, piece.len());
                        inner.log.count(None, Some(location));
                        Ok(true)
                    },
                );
                match appended? {
                    Appended::At(_) | Appended::Refused => return Ok(()),
                    Appended::NotNow(changes) => changes,
                }
            };
            inner.log.wait_for_change(changes).await;
        }
    }

    async fn commit(&mut self, key: &[u8], expires: u64) -> Result<(), Error> {
        let Some(value) = &self.value else {
            return Ok(());
        };
        let about = value.descriptor().encode();
        let entry = NewRecord::large(key, value, &about, expires);
        self.inner.write_records(&[entry], |_| true).await?;
        self.keep();
        Ok(())
    }

    /// A key has the value.
    pub fn keep(&mut self) {
        self.value = None;
    }
}

impl<I: Deref<Target = Inner>> Drop for Pending<I> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else {
            return;
        };
        let inner = &*self.inner;
        let mut state = inner.log.lock();
        // Who commits may be dropped while it waits until the record is on the disk.
        if inner
            .large
            .of(&value.key)
            .is_some_and(|it| it.id == value.id)
        {
            return;
        }
        if let Some(value) = inner.large.give_up(value.id) {
            inner.let_go(&value);
        }
        // The space may be what others wait for.
        state.cleaning_wanted = true;
        state.changed();
    }
}

impl Inner {
    /// No key has this value any more: its pieces do not count. The caller has the log's lock.
    pub fn let_go(&self, value: &Arc<Value>) {
        self.moments.note_value(value, &self.log);
        for location in value.places() {
            self.log.count(Some(location), None);
        }
    }
}

/// Whether the value of a record is put in pieces, if those are that have more than `longest`
/// bytes.
pub(crate) fn is_large(entry: &NewRecord, options: &crate::Options, longest: usize) -> bool {
    let is_long = entry.value.len() > super::PIECE.min(longest);
    let is_long = is_long || entry.bytes() > options.largest();
    entry.kind == Kind::Put && entry.large.is_none() && is_long
}
