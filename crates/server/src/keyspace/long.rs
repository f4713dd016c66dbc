//! Long strings: they are read and written in parts, and where a command needs all of one, the
//! memory for it is counted as the clients'.

use std::ops::Range;

use timberline_store::{Error as StoreError, Expiry, Stored, ValueReader, ValueWriter};

use crate::memory::Room;

use super::entry::{HEADER, header_of};
use super::{Entry, Error, Failed, Keyspace, Kind, store_key};

/// The longest string in bytes.
pub const MAX_STRING: u64 = 64 << 20;
/// Strings of more bytes are read and written in parts: those that the store has in pieces.
pub const LONG: usize = 1 << 20;

/// Whether there can be a string of so many bytes.
pub(super) fn check(len: u64) -> Result<(), Error> {
    let (len, most) = (len as usize, MAX_STRING as usize);
    match len > most {
        true => Err(StoreError::ValueTooLong(len, most).into()),
        false => Ok(()),
    }
}

/// A string that was found: in memory, or in the store if it is long.
pub enum Text {
    Whole(Entry),
    Stored {
        reader: ValueReader,
        /// Bytes in front of the value.
        header: u64,
        expires: Option<i64>,
    },
}

impl Text {
    /// Bytes of the value.
    pub fn len(&self) -> u64 {
        match self {
            Text::Whole(entry) => entry.value().len() as u64,
            Text::Stored { reader, header, .. } => reader.len() - header,
        }
    }

    /// When the key expires.
    pub fn expires(&self) -> Option<i64> {
        match self {
            Text::Whole(entry) => entry.expires,
            Text::Stored { expires, .. } => *expires,
        }
    }

    /// Appends bytes of the value that are there.
    pub async fn read(&self, range: Range<u64>, to: &mut Vec<u8>) -> Result<(), Error> {
        let bytes = (range.end - range.start) as usize;
        let (reader, header) = match self {
            Text::Whole(entry) => {
                let part = &entry.value()[range.start as usize..][..bytes];
                to.extend_from_slice(part);
                return Ok(());
            }
            Text::Stored { reader, header, .. } => (reader, header),
        };
        let reserved = to.try_reserve_exact(bytes);
        reserved.map_err(|_| StoreError::OutOfMemory)?;
        let from = to.len();
        to.resize(from + bytes, 0);
        reader
            .read_at(header + range.start, &mut to[from..])
            .await?;
        Ok(())
    }
}

impl Keyspace {
    /// A string of any length; an error if the key is of another type.
    pub async fn text(&self, key: &[u8], now: i64) -> Result<Option<Text>, Failed> {
        if self.pool.is_none() {
            let stored = self.store.value(&store_key(b's', &[key])).await;
            match stored.map_err(Error::from)? {
                Some(Stored::Whole(bytes)) => {
                    let entry = Entry::new(bytes);
                    if entry.expires.is_none_or(|at| at > now) {
                        return Ok(Some(Text::Whole(entry)));
                    }
                }
                Some(Stored::Large(reader)) => {
                    let head = head(&reader).await?;
                    if head.expires.is_none_or(|at| at > now) {
                        return Ok(Some(Text::Stored {
                            header: header_of(head.expires) as u64,
                            expires: head.expires,
                            reader,
                        }));
                    }
                }
                None => {}
            }
        }
        // It is none, or has expired.
        Ok(self.string(key, now).await?.map(Text::Whole))
    }

    /// Memory for a long value of a client's; none for a short one.
    pub fn take(&self, bytes: usize) -> Result<Option<Room>, Error> {
        match bytes > LONG {
            true => Ok(Some(self.memory.take(bytes)?)),
            false => Ok(None),
        }
    }

    /// A record of the store. A long one has its value if that is wanted, which takes memory for it
    /// and for two copies: in a reply, or in a batch.
    pub(super) async fn stored(&self, key: &[u8], whole: bool) -> Result<Option<Entry>, Error> {
        match self.store.value(key).await? {
            None => Ok(None),
            Some(Stored::Whole(bytes)) => Ok(Some(Entry::new(bytes))),
            Some(Stored::Large(reader)) if !whole => Ok(Some(head(&reader).await?)),
            Some(Stored::Large(reader)) => {
                let len = reader.len() as usize;
                let taken = self.memory.take(3 * len)?;
                let mut bytes = Vec::new();
                let reserved = bytes.try_reserve_exact(len);
                reserved.map_err(|_| StoreError::OutOfMemory)?;
                bytes.resize(len, 0);
                reader.read_at(0, &mut bytes).await?;
                Ok(Some(Entry::taken(bytes, taken)))
            }
        }
    }

    /// Whether a long string can be written to a key in parts: not in a cluster, and not in place
    /// of a hash, set or sorted set.
    pub(super) fn may_be_long(&self, key: &[u8]) -> bool {
        let is_aggregate =
            || self.aggregates() > 0 && self.store.contains_key(&store_key(b'a', &[key]));
        self.pool.is_none() && !is_aggregate()
    }

    /// Sets a string that is no hash, set or sorted set to its old value with a part of it, from
    /// `at` on, replaced. What is between its end and the part is zero. The value is never in
    /// memory as a whole.
    pub async fn splice(
        &self,
        key: &[u8],
        old: Option<&Text>,
        at: u64,
        part: &[u8],
        expires: Option<i64>,
    ) -> Result<(), Error> {
        let (len, end) = (old.map_or(0, Text::len), at + part.len() as u64);
        check(end)?;
        let header = Entry::encode(Kind::String, expires, &[]);
        let name = store_key(b's', &[key]);
        let mut writer = self.store.writer(&name, Expiry::Never);
        writer.write(&header).await?;
        let shift = header.len() as u64;
        copy(old, 0..at.min(len), shift, &mut writer).await?;
        let mut gap = at.saturating_sub(len);
        while gap > 0 {
            let zeros = &[0; 4096][..gap.min(4096) as usize];
            writer.write(zeros).await?;
            gap -= zeros.len() as u64;
        }
        writer.write(part).await?;
        copy(old, end..len.max(end), shift, &mut writer).await?;
        if let Some(timer) = self.new_timer(key, &header) {
            self.store.put(&timer, &[]).await?;
        }
        writer.commit().await?;
        self.watches.touch(key);
        Ok(())
    }
}

/// Writes a part of a value, piece by piece. `shift` is how many bytes are in front of the value.
async fn copy(
    text: Option<&Text>,
    range: Range<u64>,
    shift: u64,
    writer: &mut ValueWriter,
) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    let (mut from, mut buffer) = (range.start, Vec::new());
    while from < range.end {
        let next_piece = (from + shift + 1).next_multiple_of(LONG as u64) - shift;
        let to = next_piece.min(range.end);
        buffer.clear();
        text.read(from..to, &mut buffer).await?;
        writer.write(&buffer).await?;
        from = to;
    }
    Ok(())
}

/// What the header of a long record says.
async fn head(reader: &ValueReader) -> Result<Entry, Error> {
    let mut bytes = vec![0; HEADER];
    reader.read_at(0, &mut bytes).await?;
    Ok(Entry::new(bytes))
}
