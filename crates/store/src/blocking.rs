//! The store for threads that wait.

use std::io::{self, Read, Write};
use std::path::Path;

use timberline_io::wait_for;
use timberline_tree::KeyRange;

use crate::{
    Batch, Copied, Error, Expiry, KeyValue, Scan, Snapshot, Store, ValueReader, ValueWriter,
};

/// A store's operations for threads that wait for them ([`Store::blocking`]).
///
/// ```
/// use timberline_store::{Options, Store};
///
/// # let folder = std::env::temp_dir().join(format!("timberline-blocking-{}", std::process::id()));
/// let (store, _) = Store::open(&folder, Options::default())?;
/// let blocking = store.blocking();
/// blocking.put(b"apple", b"red")?;
/// blocking.put(b"banana", b"yellow")?;
/// assert_eq!(blocking.get(b"apple")?.as_deref(), Some(&b"red"[..]));
/// let last = blocking.range(..).next_back().transpose()?;
/// assert_eq!(last, Some((b"banana".to_vec(), b"yellow".to_vec())));
/// store.stop()?;
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), timberline_store::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Blocking<'a>(&'a Store);

impl Store {
    /// The same operations for threads that wait. Other threads have to drive the disk and maintain
    /// the store, as those of [`open`](Self::open) do.
    pub fn blocking(&self) -> Blocking<'_> {
        Blocking(self)
    }
}

impl Blocking<'_> {
    /// As [`Store::get`].
    pub fn get(self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        wait_for(self.0.get(key))
    }

    /// As [`Store::put`].
    pub fn put(self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        wait_for(self.0.put(key, value))
    }

    /// As [`Store::put_expiring`].
    pub fn put_expiring(self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<(), Error> {
        wait_for(self.0.put_expiring(key, value, expiry))
    }

    /// As [`Store::writer`].
    pub fn writer(self, key: &[u8], expiry: Expiry) -> BlockingWriter {
        BlockingWriter(self.0.writer(key, expiry))
    }

    /// As [`Store::reader`].
    pub fn reader(self, key: &[u8]) -> Result<Option<BlockingReader>, Error> {
        let reader = wait_for(self.0.reader(key))?;
        Ok(reader.map(BlockingReader::new))
    }

    /// As [`Store::set_expiry`].
    pub fn set_expiry(self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        wait_for(self.0.set_expiry(key, expiry))
    }

    /// As [`Store::persist`].
    pub fn persist(self, key: &[u8]) -> Result<bool, Error> {
        wait_for(self.0.persist(key))
    }

    /// As [`Store::delete`].
    pub fn delete(self, key: &[u8]) -> Result<bool, Error> {
        wait_for(self.0.delete(key))
    }

    /// As [`Store::compare_and_set`].
    pub fn compare_and_set(
        self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), Option<Vec<u8>>>, Error> {
        wait_for(self.0.compare_and_set(key, expected, new))
    }

    /// As [`Store::write`].
    pub fn write(self, batch: &Batch) -> Result<(), Error> {
        wait_for(self.0.write(batch))
    }

    /// As [`Store::sync`].
    pub fn sync(self) -> Result<(), Error> {
        wait_for(self.0.sync())
    }

    /// As [`Store::backup`].
    pub fn backup(self, to: &Path) -> Result<Copied, Error> {
        wait_for(self.0.backup(to))
    }

    /// As [`Store::range`].
    pub fn range(self, bounds: impl KeyRange<[u8]>) -> Records {
        Records(self.0.range(bounds))
    }

    /// As [`Store::prefix`].
    pub fn prefix(self, prefix: &[u8]) -> Records {
        Records(self.0.prefix(prefix))
    }
}

/// A snapshot's reads for threads that wait for them ([`Snapshot::blocking`]).
#[derive(Clone, Copy)]
pub struct BlockingSnapshot<'a>(&'a Snapshot);

impl Snapshot {
    /// The same reads for threads that wait, as [`Store::blocking`].
    pub fn blocking(&self) -> BlockingSnapshot<'_> {
        BlockingSnapshot(self)
    }
}

impl BlockingSnapshot<'_> {
    /// As [`Snapshot::get`].
    pub fn get(self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        wait_for(self.0.get(key))
    }

    /// As [`Snapshot::reader`].
    pub fn reader(self, key: &[u8]) -> Result<Option<BlockingReader>, Error> {
        let reader = wait_for(self.0.reader(key))?;
        Ok(reader.map(BlockingReader::new))
    }

    /// As [`Snapshot::range`].
    pub fn range(self, bounds: impl KeyRange<[u8]>) -> Records {
        Records(self.0.range(bounds))
    }

    /// As [`Snapshot::prefix`].
    pub fn prefix(self, prefix: &[u8]) -> Records {
        Records(self.0.prefix(prefix))
    }
}

/// A [`ValueWriter`] for threads that wait. Errors of the store are inside of those that it
/// returns as [`Write`].
pub struct BlockingWriter(ValueWriter);

impl BlockingWriter {
    /// As [`ValueWriter::commit`].
    pub fn commit(self) -> Result<(), Error> {
        wait_for(self.0.commit())
    }
}

impl Write for BlockingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = wait_for(self.0.write(bytes));
        written.map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    /// Does nothing: nothing is there before [`commit`](Self::commit).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A [`ValueReader`] for threads that wait, from the value's start on. It reads one piece at a
/// time. Errors of the store are inside of those that it returns as [`Read`].
pub struct BlockingReader {
    reader: ValueReader,
    /// A piece, and how much of it was returned.
    piece: Vec<u8>,
    passed: usize,
}

impl BlockingReader {
    fn new(reader: ValueReader) -> BlockingReader {
        BlockingReader {
            reader,
            piece: Vec::new(),
            passed: 0,
        }
    }

    /// As [`ValueReader::len`].
    pub fn len(&self) -> u64 {
        self.reader.len()
    }

    /// As [`ValueReader::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// As [`ValueReader::read_at`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        wait_for(self.reader.read_at(offset, buffer))
    }
}

impl Read for BlockingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.passed == self.piece.len() {
            self.passed = 0;
            self.piece.clear();
            if let Some(piece) = wait_for(self.reader.next()) {
                self.piece = piece.map_err(io::Error::other)?;
            }
        }
        let bytes = (&self.piece[self.passed..]).read(buffer)?;
        self.passed += bytes;
        Ok(bytes)
    }
}

/// Records in key order, as [`Scan`] has them.
pub struct Records(Scan);

impl Iterator for Records {
    type Item = Result<KeyValue, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        wait_for(self.0.next())
    }
}

impl DoubleEndedIterator for Records {
    fn next_back(&mut self) -> Option<Self::Item> {
        wait_for(self.0.next_back())
    }
}
