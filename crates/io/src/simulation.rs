//! A disk in memory that is deterministic for a seed, with the faults of real disks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::Mode;
use crate::file::EIO;
use crate::queue::Action;

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: usize = 512;

/// The faults of a simulated disk. Chances are per request, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Faults {
    /// A read or write transfers less than asked (whole sectors).
    pub short: f64,
    /// A sync fails. Data that was not on the disk then may never get there, and later syncs
    /// succeed: what Linux does (Rebello et al.: "Can Applications Recover from fsync Failures?",
    /// USENIX ATC 2020).
    pub failed_sync: f64,
    /// The request with this number fails, counted from 0 with all others, those of names too.
    pub failed_request: Option<u64>,
    /// The first request of names from this one on panics, on the thread that asks. It stands for a
    /// mistake of the program.
    pub panicking_request: Option<u64>,
    /// From this request on all fail: the power is off.
    pub power_off: Option<u64>,
    /// Bytes that all files can have. More is [`StorageFull`](ErrorKind::StorageFull).
    pub capacity: u64,
    /// Nanoseconds that a request takes: drawn evenly from 0 to twice this many. So requests that
    /// are under way together complete in any order.
    pub mean_latency_ns: u64,
}

impl Default for Faults {
    /// None.
    fn default() -> Faults {
        Faults {
            short: 0.0,
            failed_sync: 0.0,
            failed_request: None,
            panicking_request: None,
            power_off: None,
            capacity: u64::MAX,
            mean_latency_ns: 100_000,
        }
    }
}

/// The disk itself, which outlives crashes. Clones are the same disk.
#[derive(Clone)]
pub struct Simulation(Arc<Mutex<State>>);

/// Names a file, whatever its path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileId(u64);

struct State {
    draws: fastrand::Rng,
    faults: Faults,
    requests: u64,
    now_ns: u64,
    files: BTreeMap<FileId, Data>,
    /// As a program sees them, and as a crash leaves them if none of the changes survives.
    names: BTreeMap<PathBuf, FileId>,
    synced_names: BTreeMap<PathBuf, FileId>,
    folders: BTreeSet<PathBuf>,
    next_file: u64,
}

/// A file's bytes.
#[derive(Clone, Default)]
struct Data {
    /// As reads see them.
    now: Vec<u8>,
    /// As they are on the disk for certain.
    synced: Vec<u8>,
    /// Changes since the last sync: of bytes, or of the length alone.
    changes: Vec<Change>,
    /// Bytes for which there is space.
    allocated: u64,
    /// Sectors that can't be read, by number.
    lost: BTreeSet<u64>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Simulation {
    /// An empty disk without faults. The seed determines all that is left to chance.
    pub fn new(seed: u64) -> Simulation {
        Simulation(Arc::new(Mutex::new(State {
            draws: fastrand::Rng::with_seed(seed),
            faults: Faults::default(),
            requests: 0,
            now_ns: 0,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            folders: BTreeSet::new(),
            next_file: 0,
        })))
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Requests so far, those of names too.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Virtual time since the disk was made, in nanoseconds. It goes on with requests only.
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// Bytes for which there is space in files.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// The disk after the power went off and came back: everything that was synced is there. Of
    /// each other write all sectors are, or none, or some, whatever their order was; of each other
    /// change of a name either the old or the new. Requests under way are gone with their futures.
    /// Faults are off.
    pub fn crash(&self) -> Simulation {
        let mut state = self.lock();
        let mut draws = state.draws.fork();
        let mut names = state.synced_names.clone();
        let paths = state.synced_names.keys().chain(state.names.keys());
        for path in paths.collect::<BTreeSet<_>>() {
            let (old, new) = (state.synced_names.get(path), state.names.get(path));
            if old != new && draws.bool() {
                match new {
                    Some(id) => names.insert(path.clone(), *id),
                    None => names.remove(path),
                };
            }
        }
        let survivors: BTreeSet<FileId> = names.values().copied().collect();
        let data = |id: &FileId| (*id, state.files[id].after_crash(&mut draws));
        let files = survivors.iter().map(data).collect();
        let crashed = Simulation::new(draws.u64(..));
        let mut after = crashed.lock();
        after.files = files;
        after.synced_names = names.clone();
        after.names = names;
        after.folders = state.folders.clone();
        after.next_file = state.next_file;
        after.now_ns = state.now_ns;
        drop(after);
        crashed
    }

    /// Flips a bit of a file, on the disk and for all readers.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> io::Result<()> {
        let mut state = self.lock();
        let data = state.named(path)?;
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        for bytes in [&mut data.now, &mut data.synced] {
            if let Some(byte) = bytes.get_mut(byte) {
                *byte ^= mask;
            }
        }
        Ok(())
    }

    /// Has reads of the sector with this byte of a file fail as those of a broken one do, until it
    /// is written again.
    pub fn lose_sector(&self, path: &Path, byte: u64) -> io::Result<()> {
        self.lock().named(path)?.lost.insert(byte / SECTOR as u64);
        Ok(())
    }

    /// Has such a sector be readable again.
    pub fn find_sector(&self, path: &Path, byte: u64) -> io::Result<()> {
        self.lock()
            .named(path)?
            .lost
            .remove(&(byte / SECTOR as u64));
        Ok(())
    }

    pub(crate) fn open(&self, path: &Path, mode: Mode) -> io::Result<FileId> {
        let mut state = self.request()?;
        if let Some(&id) = state.names.get(path) {
            return Ok(id);
        }
        if !mode.create || path.parent().is_some_and(|it| !state.has_folder(it)) {
            return Err(ErrorKind::NotFound.into());
        }
        let id = FileId(state.next_file);
        state.next_file += 1;
        state.files.insert(id, Data::default());
        state.names.insert(path.into(), id);
        Ok(id)
    }

    /// When a request ends that begins now.
    pub(crate) fn draw_due_ns(&self) -> u64 {
        let mut state = self.lock();
        let most = state.faults.mean_latency_ns.saturating_mul(2);
        state.now_ns.saturating_add(state.draws.u64(0..=most))
    }

    /// It is as late as that, at least.
    pub(crate) fn pass(&self, now_ns: u64) {
        let mut state = self.lock();
        state.now_ns = state.now_ns.max(now_ns);
    }

    pub(crate) fn perform(
        &self,
        id: FileId,
        action: Action,
        bytes: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let mut state = self.any_request()?;
        match action {
            Action::Read => state.read(id, bytes, offset),
            Action::Write => state.write(id, bytes, offset),
            Action::Sync => state.sync(id),
        }
    }

    pub(crate) fn len(&self, id: FileId) -> io::Result<u64> {
        Ok(self.request()?.data(id)?.now.len() as u64)
    }

    pub(crate) fn set_len(&self, id: FileId, len: u64) -> io::Result<()> {
        let mut state = self.request()?;
        state.make_space(id, len)?;
        let data = state.data(id)?;
        data.now.resize(len as usize, 0);
        data.allocated = len;
        data.changes.push(Change::Length(len));
        Ok(())
    }

    pub(crate) fn allocate(&self, id: FileId, len: u64) -> io::Result<()> {
        if self.len(id)? < len {
            self.set_len(id, len)
        } else {
            Ok(())
        }
    }

    pub(crate) fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.request()?;
        state.folders.extend(path.ancestors().map(PathBuf::from));
        Ok(())
    }

    pub(crate) fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.request()?;
        if !state.has_folder(folder) {
            return Err(ErrorKind::NotFound.into());
        }
        let all = state.names.keys().chain(&state.folders);
        let within: BTreeSet<_> = all.filter(|path| path.parent() == Some(folder)).collect();
        Ok(within.into_iter().cloned().collect())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.request()?;
        let removed = state.names.remove(path).map(|_| ());
        removed.ok_or(ErrorKind::NotFound.into())
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.request()?;
        let id = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
        state.names.insert(to.into(), id);
        Ok(())
    }

    pub(crate) fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.request()?;
        let within = |path: &PathBuf| path.parent() == Some(folder);
        let names = state.names.clone();
        state.synced_names.retain(|path, _| !within(path));
        state
            .synced_names
            .extend(names.into_iter().filter(|it| within(&it.0)));
        Ok(())
    }

    /// A request of names, which may be one that panics.
    fn request(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let from = state.faults.panicking_request;
        if from.is_some_and(|from| from <= state.requests) {
            state.faults.panicking_request = None;
            drop(state);
            panic!("a request panics, as it was told to");
        }
        drop(state);
        self.any_request()
    }

    /// Counts a request, which may be one that fails.
    fn any_request(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let number = state.requests;
        state.requests += 1;
        let Faults {
            failed_request,
            power_off,
            ..
        } = state.faults;
        if power_off.is_some_and(|from| number >= from) {
            return Err(io::Error::other(format!(
                "the power is off since before request {number}"
            )));
        }
        if failed_request == Some(number) {
            return Err(io::Error::other(format!(
                "request {number} fails, as it was told to"
            )));
        }
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl State {
    fn data(&mut self, id: FileId) -> io::Result<&mut Data> {
        self.files.get_mut(&id).ok_or(ErrorKind::NotFound.into())
    }

    fn named(&mut self, path: &Path) -> io::Result<&mut Data> {
        let id = *self.names.get(path).ok_or(ErrorKind::NotFound)?;
        self.data(id)
    }

    fn has_folder(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.folders.contains(path)
    }

    fn used(&self) -> u64 {
        // A file without a name has its space until it is closed; here, until a crash.
        let named: BTreeSet<_> = self
            .names
            .values()
            .chain(self.synced_names.values())
            .collect();
        named.iter().map(|id| self.files[id].allocated).sum()
    }

    /// Checks that there is space for a file of this length.
    fn make_space(&mut self, id: FileId, len: u64) -> io::Result<()> {
        let more = len.saturating_sub(self.data(id)?.allocated);
        if more > 0 && self.used().saturating_add(more) > self.faults.capacity {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// How many of these bytes a request transfers.
    fn transferred(&mut self, bytes: usize) -> usize {
        let sectors = bytes / SECTOR;
        if sectors > 1 && self.draws.f64() < self.faults.short {
            self.draws.usize(1..sectors) * SECTOR
        } else {
            bytes
        }
    }

    fn read(&mut self, id: FileId, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = self.transferred(bytes.len());
        let data = self.data(id)?;
        if data.lost.range(sectors(offset, most)).next().is_some() {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let rest = data.now.get(offset as usize..).unwrap_or_default();
        let read = most.min(rest.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write(&mut self, id: FileId, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.transferred(bytes.len());
        let end = offset + written as u64;
        self.make_space(id, end)?;
        let data = self.data(id)?;
        data.allocated = data.allocated.max(end);
        let overwritten = sectors(offset, written);
        data.lost.retain(|it| !overwritten.contains(it));
        let change = Change::Write(offset, bytes[..written].to_vec());
        change.apply(&mut data.now);
        data.changes.push(change);
        Ok(written)
    }

    fn sync(&mut self, id: FileId) -> io::Result<usize> {
        let fails = self.draws.f64() < self.faults.failed_sync;
        let mut draws = self.draws.fork();
        let data = self.data(id)?;
        if fails {
            data.synced = data.surviving(&mut draws);
            data.changes.clear();
            return Err(io::Error::other("the sync failed"));
        }
        // Not all that reads see: what a failed sync lost stays lost.
        for change in std::mem::take(&mut data.changes) {
            change.apply(&mut data.synced);
        }
        Ok(0)
    }
}

/// The numbers of the sectors of which a request reads or writes bytes.
fn sectors(offset: u64, bytes: usize) -> Range<u64> {
    let sector = SECTOR as u64;
    offset / sector..(offset + bytes as u64).div_ceil(sector)
}

impl Data {
    fn after_crash(&self, draws: &mut fastrand::Rng) -> Data {
        let now = self.surviving(draws);
        let allocated = now.len() as u64;
        Data {
            synced: now.clone(),
            now,
            changes: Vec::new(),
            allocated,
            lost: self.lost.clone(),
        }
    }

    /// The disk's content if the changes since the last sync get there by chance.
    fn surviving(&self, draws: &mut fastrand::Rng) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let mut changes: Vec<&Change> = self.changes.iter().collect();
        draws.shuffle(&mut changes);
        for change in changes {
            match (draws.u8(0..3), change) {
                (0, _) => {}
                (1, change) => change.apply(&mut bytes),
                (_, Change::Length(_)) => {}
                (_, Change::Write(offset, written)) => {
                    let first = SECTOR - (*offset as usize % SECTOR);
                    let (head, rest) = written.split_at(first.min(written.len()));
                    let mut at = *offset;
                    for sector in std::iter::once(head).chain(rest.chunks(SECTOR)) {
                        if draws.bool() {
                            Change::Write(at, sector.to_vec()).apply(&mut bytes);
                        }
                        at += sector.len() as u64;
                    }
                }
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Length(len) => bytes.resize(*len as usize, 0),
            Change::Write(offset, written) => {
                let (start, end) = (*offset as usize, *offset as usize + written.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(written);
            }
        }
    }
}
