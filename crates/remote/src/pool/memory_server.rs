//! A memory server: registered memory, handed out in chunks.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use timberline_tree::btree::page::Image;

use super::Session;
use super::free_space::FreeSpace;
use super::permits::Permits;
use crate::address::{Address, ComputeId};
use crate::error::{Error, Result};
use crate::fabric::{Call, Load, Operation, Reply};
use crate::image::WORDS;

/// The bytes that a compute server gets at a time.
pub const CHUNK: usize = 256 << 10;

/// How many threads at a time look for leaves, if nothing else is said.
pub const FINDERS: usize = 4;

/// Memory that compute servers read and write, word by word, and its allocator of nodes.
///
/// Its first chunk belongs to the tree's superblock and is not handed out.
#[derive(Debug)]
pub struct MemoryServer {
    memory: Box<[AtomicU64]>,
    space: Mutex<FreeSpace>,
    /// With compute servers that are connected, or fenced.
    sessions: Mutex<HashMap<ComputeId, Arc<Session>>>,
    /// Of threads that look for leaves.
    finders: Permits,
}

impl MemoryServer {
    /// A server with so many bytes of zeroed memory, which is rounded down to whole chunks.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(bytes: usize) -> Result<MemoryServer> {
        let words = bytes / CHUNK * CHUNK / 8;
        let memory = bytemuck::allocation::try_zeroed_slice_box(words);
        Ok(MemoryServer {
            space: Mutex::new(FreeSpace::new(8 * words)),
            memory: memory.map_err(|()| Error::OutOfMemory(bytes))?,
            sessions: Mutex::default(),
            finders: Permits::new(FINDERS),
        })
    }

    /// Lets so many threads at a time look for leaves, at least one.
    #[must_use]
    pub fn with_finders(self, threads: usize) -> MemoryServer {
        let finders = Permits::new(threads.max(1));
        MemoryServer { finders, ..self }
    }

    /// The session with a compute server.
    pub fn session(&self, compute: ComputeId) -> Arc<Session> {
        let mut sessions = self.sessions();
        sessions.retain(|_, session| Arc::strong_count(session) > 1 || session.is_fenced());
        Arc::clone(sessions.entry(compute).or_default())
    }

    /// Carries an operation out that is addressed to this server.
    ///
    /// # Errors
    /// There is no such memory, or none left; or the compute server was fenced.
    pub fn perform(&self, session: &Session, operation: &Operation) -> Result<Reply> {
        match *operation {
            // Two compute servers may fence each other, or one itself.
            Operation::Call(_, Call::Fence(compute)) => {
                session.within(|| Ok(()))?;
                self.session(compute).fence();
                Ok(Reply::Written)
            }
            _ => session.within(|| self.carry_out(operation)),
        }
    }

    fn carry_out(&self, operation: &Operation) -> Result<Reply> {
        match *operation {
            Operation::Read(at, words) => self.read(at, words).map(Reply::Words),
            Operation::Write(at, ref words) => self.write(at, words).map(|()| Reply::Written),
            Operation::WriteInOrder(_) => {
                let words = operation.written_words();
                self.write_part(operation, 0, words)?;
                Ok(Reply::Written)
            }
            Operation::CompareExchange { at, old, new } => {
                let result = self.words(at, 1)?[0].compare_exchange(old, new, SeqCst, SeqCst);
                Ok(Reply::Word(result.unwrap_or_else(|found| found)))
            }
            Operation::FetchAdd(at, add) => {
                Ok(Reply::Word(self.words(at, 1)?[0].fetch_add(add, SeqCst)))
            }
            Operation::Call(server, Call::Allocate) => {
                let nodes = self.space().take();
                match nodes.is_empty() {
                    true => Err(Error::PoolFull(server)),
                    false => Ok(Reply::Words(nodes)),
                }
            }
            Operation::Call(_, Call::GiveBack(node)) => {
                let mut space = self.space();
                if !space.give_back(node.offset()) {
                    return Err(Error::OutOfRange(node));
                }
                // It may have held a record's bytes. Who gets it as a node finds it unlocked.
                self.write(node, &[0])?;
                Ok(Reply::Written)
            }
            Operation::Call(_, Call::Load) => Ok(Reply::Load(self.load())),
            Operation::Call(_, Call::IsFenced(compute)) => {
                let fenced = self.sessions().get(&compute).map(|it| it.is_fenced());
                Ok(Reply::Word(fenced.unwrap_or(false).into()))
            }
            Operation::Call(_, Call::Find(find)) => {
                let _permit = self.finders.take();
                self.find(find).map(Reply::Found)
            }
            Operation::Call(_, Call::Fence(_)) => unreachable!("`perform` does it"),
        }
    }

    /// Reads words.
    pub(crate) fn read(&self, at: Address, words: usize) -> Result<Vec<u64>> {
        let words = self.words(at, words)?;
        Ok(words.iter().map(|word| word.load(Relaxed)).collect())
    }

    /// Reads the image of a node.
    pub(super) fn read_image(&self, at: Address, image: &mut Image) -> Result<()> {
        for (to, word) in image.iter_mut().zip(self.words(at, WORDS)?) {
            *to = word.load(Relaxed);
        }
        Ok(())
    }

    /// Writes words.
    pub(crate) fn write(&self, at: Address, words: &[u64]) -> Result<()> {
        for (place, &word) in self.words(at, words.len())?.iter().zip(words) {
            place.store(word, Relaxed);
        }
        Ok(())
    }

    /// Writes so many of the words of an operation, after as many as were written before.
    ///
    /// # Errors
    /// There is no memory for some of the operation's words. Nothing was written now.
    pub(crate) fn write_part(
        &self,
        operation: &Operation,
        mut before: usize,
        mut words: usize,
    ) -> Result<()> {
        for (at, all) in operation.writes() {
            self.words(at, all.len())?;
        }
        for (at, all) in operation.writes() {
            let skipped = before.min(all.len());
            let now = words.min(all.len() - skipped);
            // Who sees a word of the next write sees these.
            fence(Release);
            self.write(at.add(8 * skipped as u64), &all[skipped..][..now])?;
            before -= skipped;
            words -= now;
        }
        Ok(())
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<ComputeId, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// All of its words, for network cards that read and write them.
    #[cfg(feature = "libfabric")]
    pub(crate) fn memory(&self) -> &[AtomicU64] {
        &self.memory
    }

    fn words(&self, at: Address, words: usize) -> Result<&[AtomicU64]> {
        let first = usize::try_from(at.offset() / 8).ok();
        let end = first.and_then(|first| first.checked_add(words));
        let range = first.zip(end).map(|(first, end)| first..end);
        range
            .filter(|_| at.offset().is_multiple_of(8))
            .and_then(|range| self.memory.get(range))
            .ok_or(Error::OutOfRange(at))
    }

    fn space(&self) -> MutexGuard<'_, FreeSpace> {
        self.space.lock().unwrap_or_else(|it| it.into_inner())
    }

    fn load(&self) -> Load {
        Load {
            capacity_bytes: 8 * self.memory.len() as u64,
            allocated_bytes: self.space().used() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_where_it_ends() {
        let server = MemoryServer::new(2 * CHUNK + 100).unwrap();
        let last = Address::new(0, 2 * CHUNK as u64 - 8);
        let perform = |operation| server.carry_out(&operation);
        assert_eq!(perform(Operation::Write(last, vec![7])), Ok(Reply::Written));
        assert_eq!(perform(Operation::Read(last, 1)), Ok(Reply::Words(vec![7])));
        for at in [last.add(8), last.add(4)] {
            let refused = Err(Error::OutOfRange(at));
            assert_eq!(perform(Operation::Read(at, 1)), refused);
            assert_eq!(perform(Operation::FetchAdd(at, 1)), refused);
        }
        let both = Operation::Write(last, vec![8, 9]);
        assert_eq!(perform(both), Err(Error::OutOfRange(last)));
        assert_eq!(perform(Operation::Read(last, 1)), Ok(Reply::Words(vec![7])));
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let refused = MemoryServer::new(usize::MAX / 2).err();
        assert_eq!(refused, Some(Error::OutOfMemory(usize::MAX / 2)));
    }

    #[test]
    fn nodes_are_handed_out_once() {
        let server = MemoryServer::new(3 * CHUNK).unwrap();
        let allocate = || server.carry_out(&Operation::Call(3, Call::Allocate));
        let mut offsets = Vec::new();
        for _ in 0..2 {
            let Ok(Reply::Words(nodes)) = allocate() else {
                panic!("no nodes");
            };
            offsets.extend(nodes);
        }
        offsets.dedup();
        assert_eq!(
            (offsets[0], offsets.len()),
            (CHUNK as u64, 2 * CHUNK / 1024)
        );
        assert_eq!(allocate(), Err(Error::PoolFull(3)));
        let give_back = |offset| {
            let node = Address::new(3, offset);
            server.carry_out(&Operation::Call(3, Call::GiveBack(node)))
        };
        let nowhere = Address::new(3, 0);
        assert_eq!(give_back(0), Err(Error::OutOfRange(nowhere)));
        assert_eq!(give_back(offsets[9]), Ok(Reply::Written));
        assert_eq!(allocate(), Ok(Reply::Words(vec![offsets[9]])));
        let Ok(Reply::Load(load)) = server.carry_out(&Operation::Call(3, Call::Load)) else {
            panic!("no load");
        };
        assert_eq!(load.allocated_bytes, load.capacity_bytes);
    }

    #[test]
    fn a_word_is_exchanged_if_it_is_the_expected() {
        let server = MemoryServer::new(CHUNK).unwrap();
        let at = Address::new(0, 64);
        let exchange = |old, new| server.carry_out(&Operation::CompareExchange { at, old, new });
        assert_eq!(exchange(0, 5), Ok(Reply::Word(0)));
        assert_eq!(exchange(0, 6), Ok(Reply::Word(5)));
        assert_eq!(
            server.carry_out(&Operation::FetchAdd(at, 2)),
            Ok(Reply::Word(5))
        );
        assert_eq!(
            server.carry_out(&Operation::Read(at, 1)),
            Ok(Reply::Words(vec![7]))
        );
    }

    #[test]
    fn writes_in_order_are_all_done_or_none() {
        let server = MemoryServer::new(CHUNK).unwrap();
        let [one, other] = [64, 8].map(|offset| Address::new(0, offset));
        let read = || [one, other].map(|at| server.read(at, 1).unwrap()[0]);
        let writes = vec![(one, vec![1, 2]), (other, vec![3])];
        let perform = |writes| server.carry_out(&Operation::WriteInOrder(writes));
        assert_eq!(perform(writes), Ok(Reply::Written));
        assert_eq!(read(), [1, 3]);
        let nowhere = Address::new(0, CHUNK as u64);
        let refused = perform(vec![(one, vec![7]), (nowhere, vec![8])]);
        assert_eq!(refused, Err(Error::OutOfRange(nowhere)));
        assert_eq!(read(), [1, 3]);
        // In parts, as a simulated network does it.
        let writes = Operation::WriteInOrder(vec![(one, vec![5, 6]), (other, vec![7])]);
        for (before, seen) in [(0, [5, 3]), (1, [5, 3]), (2, [5, 7])] {
            server.write_part(&writes, before, 1).unwrap();
            assert_eq!(read(), seen);
        }
    }

    #[test]
    fn who_is_fenced_does_nothing_more() {
        let server = MemoryServer::new(CHUNK).unwrap();
        let [one, other] = [1, 2].map(|number| ComputeId::new(number).unwrap());
        let sessions = [one, other].map(|compute| server.session(compute));
        let at = Address::new(0, 64);
        let write = Operation::Write(at, vec![1]);
        assert_eq!(server.perform(&sessions[1], &write), Ok(Reply::Written));
        let is_fenced = Operation::Call(0, Call::IsFenced(other));
        assert_eq!(server.perform(&sessions[0], &is_fenced), Ok(Reply::Word(0)));
        let fence = Operation::Call(0, Call::Fence(other));
        assert_eq!(server.perform(&sessions[0], &fence), Ok(Reply::Written));
        assert_eq!(server.perform(&sessions[0], &is_fenced), Ok(Reply::Word(1)));
        for operation in [write, Operation::Read(at, 1), fence] {
            let refused = server.perform(&sessions[1], &operation);
            assert_eq!(refused, Err(Error::Fenced));
        }
        // Nor does it on a new connection.
        drop(sessions);
        assert!(server.session(other).is_fenced());
        assert!(!server.session(one).is_fenced());
    }
}
