//! A segment: a file of records, written from front to back once, and erased as a whole.
//!
//! ```text
//!     0  header (`header.rs`)
//!  4096  records, then a record that says that there are no more
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use timberline_io::{BLOCK, Buffer, Disk, File, Mode};

use crate::checkpoint::Covered;
use crate::header::Header;
use crate::location::{Location, SegmentId};
use crate::record::{Kind, bytes_of};
use crate::{Error, Options};

/// Where records begin.
pub(crate) const START: u64 = BLOCK as u64;

/// A segment of which less is written has space for another record, as none takes more than an
/// eighth.
const FILLED: f64 = 0.8;

/// A segment that is open.
pub(crate) struct Segment {
    pub header: Header,
    pub path: PathBuf,
    pub file: File,
    /// Bytes that it may have.
    pub bytes: u64,
    /// Bytes that can be read from the file: whole records.
    written: AtomicU64,
    /// Sectors of records that were appended, and of those that the index still knows.
    total: AtomicU64,
    live: AtomicU64,
    /// Sectors of deletes.
    deletes: AtomicU64,
    /// The greatest sequence number in the store when its records began to come.
    began: AtomicU64,
    /// The greatest sequence number in it.
    newest: AtomicU64,
    /// Whether a record is in it that hides older ones of its key.
    hides: AtomicBool,
    /// Whether it can't be cleaned.
    kept: AtomicBool,
    /// Whether it was there when the store was opened.
    is_old: bool,
}

impl Segment {
    /// Makes a segment of so many bytes, with space on the disk for all of them. It is on the disk
    /// when this returns.
    pub async fn create(
        disk: &Disk,
        folder: &Path,
        header: Header,
        bytes: u64,
        options: &Options,
    ) -> Result<Segment, Error> {
        let path = path(folder, header.id);
        let mode = Mode {
            direct: options.direct,
            ..Mode::create()
        };
        let file = disk.open_file(&path, mode).map_err(Error::disk(&path))?;
        let made = Self::make(disk, folder, header, bytes, (&path, &file)).await;
        if made.is_err() {
            // The next start removes it too.
            let _ = discard(disk, &path, &file);
        }
        made
    }

    async fn make(
        disk: &Disk,
        folder: &Path,
        header: Header,
        bytes: u64,
        (path, file): (&Path, &File),
    ) -> Result<Segment, Error> {
        file.allocate(bytes).map_err(Error::disk(path))?;
        let mut block = Buffer::zeroed(BLOCK).map_err(|error| Error::disk(path)(error.into()))?;
        header.encode(&mut block);
        let (_, written) = file.write_all(block, 0..BLOCK, 0).await;
        written.map_err(Error::disk(path))?;
        file.sync().await.map_err(Error::disk(path))?;
        let synced = disk.sync_folder(folder).await;
        synced.map_err(Error::disk(folder))?;
        Ok(Segment::opened(header, path.into(), file.clone(), bytes))
    }

    /// A segment whose file is open.
    fn opened(header: Header, path: PathBuf, file: File, bytes: u64) -> Segment {
        Segment {
            header,
            path,
            file,
            bytes,
            written: AtomicU64::new(START),
            total: AtomicU64::new(0),
            live: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            began: AtomicU64::new(header.sequence),
            newest: AtomicU64::new(header.sequence),
            hides: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            is_old: false,
        }
    }

    /// One that was there when the store was opened, with so many bytes. All of them can be read.
    pub fn found(header: Header, path: PathBuf, file: File, bytes: u64) -> Segment {
        Segment {
            is_old: true,
            written: AtomicU64::new(bytes),
            ..Segment::opened(header, path, file, bytes)
        }
    }

    /// Gives the space behind its last record back, to which none is appended any more. The one
    /// that seals it, if there is one, may not count as written.
    pub fn trim(&self) -> Result<(), Error> {
        let sealed = self.written() + bytes_of(0, 0, false) as u64;
        let needed = sealed.next_multiple_of(BLOCK as u64);
        let trimmed = match self.file.len() {
            Ok(len) if len > needed => self.file.set_len(needed),
            len => len.map(|_| ()),
        };
        trimmed.map_err(Error::disk(&self.path))
    }

    /// Removes its file.
    pub fn discard(&self, disk: &Disk) -> Result<(), Error> {
        discard(disk, &self.path, &self.file)
    }

    pub fn id(&self) -> SegmentId {
        self.header.id
    }

    /// Waits until all that was written to its file is on the disk.
    pub async fn sync(&self) -> Result<(), Error> {
        let synced = self.file.sync().await;
        synced.map_err(Error::disk(&self.path))
    }

    /// Bytes from the start that can be read from the file.
    pub fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    pub fn set_written(&self, bytes: u64) {
        self.written.store(bytes, SeqCst);
    }

    /// What a checkpoint says of it whose records end there.
    pub fn covered(&self, end: u64, is_complete: bool) -> Covered {
        Covered {
            id: self.id(),
            end,
            is_complete,
            total: self.total.load(Relaxed),
            deletes: self.deletes.load(Relaxed),
            newest: self.newest(),
            hides: self.hides.load(Relaxed),
        }
    }

    /// Its records up to there are known from a checkpoint.
    pub fn cover(&self, covered: Covered) {
        self.total.fetch_add(covered.total, Relaxed);
        self.deletes.fetch_add(covered.deletes, Relaxed);
        self.newest.fetch_max(covered.newest, Relaxed);
        self.hides.fetch_or(covered.hides, Relaxed);
    }

    /// A record was appended; `hides` as [`Record::hides`](crate::record::Record::hides). One
    /// thread at a time appends to a segment, so others only read these numbers.
    pub fn add(&self, location: Location, sequence: u64, kind: Kind, hides: bool) {
        let sectors = location.touched();
        if kind == Kind::Delete {
            self.deletes
                .store(self.deletes.load(Relaxed) + sectors, Relaxed);
        }
        self.total
            .store(self.total.load(Relaxed) + sectors, Relaxed);
        if self.newest.load(Relaxed) < sequence {
            self.newest.store(sequence, Relaxed);
        }
        if hides {
            self.hides.store(true, Relaxed);
        }
    }

    /// Whether nothing was appended to it.
    pub fn has_no_records(&self) -> bool {
        self.total.load(Relaxed) == 0
    }

    /// The first record follows. `sequence` is the greatest number of all so far.
    pub fn begin(&self, sequence: u64) {
        self.began.store(sequence, Relaxed);
    }

    /// No record with a number up to this one has an older record of its key in here: what is new
    /// has greater numbers, and what cleaning moves counts when it comes. Of a segment that was
    /// found when the store was opened, it may be the number when the file was made, which is
    /// smaller.
    pub fn began(&self) -> u64 {
        match self.has_no_records() {
            true => u64::MAX,
            false => self.began.load(Relaxed),
        }
    }

    /// The index now knows a record of it.
    pub fn revive(&self, location: Location) {
        self.revive_sectors(location.touched());
    }

    /// The same of several, which [touch](Location::touched) so many sectors.
    pub fn revive_sectors(&self, sectors: u64) {
        self.live.fetch_add(sectors, Relaxed);
    }

    /// The index knows a record of it no more.
    pub fn kill(&self, location: Location) {
        self.live.fetch_sub(location.touched(), Relaxed);
    }

    /// The index knows one record of it instead of another one.
    pub fn replace(&self, old: Location, new: Location) {
        if new.touched() != old.touched() {
            // The sum wraps, too.
            self.revive_sectors(new.touched().wrapping_sub(old.touched()));
        }
    }

    /// Fraction of its records that the index still knows, by size.
    pub fn utilization(&self) -> f64 {
        self.fraction(self.live.load(Relaxed))
    }

    /// Fraction of its records that cleaning would move, by size, about: deletes too, where records
    /// in other segments, the oldest of which [began](Self::began) then, may be older.
    pub fn moving(&self, oldest: u64) -> f64 {
        let deletes = match oldest < self.newest() {
            true => self.deletes.load(Relaxed),
            false => 0,
        };
        self.fraction(self.live.load(Relaxed) + deletes)
    }

    fn fraction(&self, sectors: u64) -> f64 {
        let total = self.total.load(Relaxed);
        sectors as f64 / total.max(1) as f64
    }

    /// Fraction of a segment's bytes that its records take. One that was written to its end counts
    /// as filled: no record fitted behind the last one. The store that wrote another one was closed
    /// or ended before.
    pub fn filled(&self, segment_bytes: u64) -> f64 {
        let filled = self.written() as f64 / segment_bytes as f64;
        match self.is_old && filled < FILLED {
            true => filled,
            false => 1.0,
        }
    }

    pub fn newest(&self) -> u64 {
        self.newest.load(Relaxed)
    }

    /// Whether the index knows none of its records.
    pub fn is_empty(&self) -> bool {
        self.live.load(Relaxed) == 0
    }

    /// Whether there is nothing in it to move. Of other segments, the oldest [began](Self::began)
    /// then.
    pub fn is_dead(&self, oldest: u64) -> bool {
        self.is_empty() && (!self.hides.load(Relaxed) || self.newest() <= oldest)
    }

    /// It can't be cleaned.
    pub fn keep(&self) {
        self.kept.store(true, Relaxed);
    }

    pub fn is_kept(&self) -> bool {
        self.kept.load(Relaxed)
    }
}

/// Removes a file. Its space is free at once: the system frees that of an open file when it is
/// closed, which takes a moment.
pub(crate) fn discard(disk: &Disk, path: &Path, file: &File) -> Result<(), Error> {
    let emptied = file.set_len(0);
    let removed = emptied.and_then(|()| disk.remove_now(path));
    removed.map_err(Error::disk(path))
}

/// The file of a segment.
pub(crate) fn path(folder: &Path, id: SegmentId) -> PathBuf {
    folder.join(format!("{:06x}.segment", id.0))
}

/// Whether a file is a segment, by its name.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "segment")
}

/// The number of a segment, by its file's name.
pub(crate) fn number_of(file: &Path) -> Option<SegmentId> {
    let number = u32::from_str_radix(file.file_stem()?.to_str()?, 16).ok()?;
    let id = SegmentId(number);
    let is_its_name = id <= SegmentId::LAST && path(file.parent()?, id) == file;
    is_its_name.then_some(id)
}
