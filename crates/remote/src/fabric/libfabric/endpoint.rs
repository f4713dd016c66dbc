//! An endpoint and the memory of its operations.
//!
//! Invariant: from the beginning of an operation until it is complete, its slot is nobody's, and no
//! block of slots is freed before the endpoint and its regions are closed. So whatever has timed
//! out, a network card writes nowhere else.

#![allow(unsafe_code)]

use std::mem::{forget, take};
use std::net::IpAddr;
use std::sync::Arc;

use super::Provider;
use super::buffers::{Buffers, Slot};
use super::library::Failed;
use super::native::{NotBegun, Own, Place, RawEndpoint, RawRegion, Waits};
use crate::pool::MemoryServer;

/// Completions that the queue has room for: more operations are never under way.
const ENTRIES: usize = 2_048;

/// What an operation does with its slot.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Fills so many words with those of the peer.
    Read(usize, Place),
    /// Writes so many words to the peer.
    Write(usize, Place),
    /// The first word is the new one, the second the expected; the third becomes the one before.
    CompareExchange(Place),
    /// The first word is added; the third becomes the one before.
    FetchAdd(Place),
    /// Sends so many words.
    Send(usize),
    /// Receives a message, as long as the slot at most.
    Receive,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Ended<T> {
    pub slot: Slot,
    /// What it was begun with.
    pub tag: T,
    /// Bytes that were received.
    pub result: Result<usize, Failed>,
}

/// One side of the way to one peer. Operations have tags of the caller's.
pub struct Endpoint<T> {
    raw: RawEndpoint,
    /// Of blocks, if the provider's own side needs regions.
    regions: Vec<RawRegion>,
    buffers: Buffers,
    /// By slot: the tag of the operation that has it.
    under_way: Vec<Option<T>>,
    /// Memory that the peer may use.
    shared: Option<(RawRegion, Arc<MemoryServer>)>,
}

impl<T> Endpoint<T> {
    /// Opens one at a provider's network card of this address.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn open(provider: &Provider, address: IpAddr) -> Result<Endpoint<T>, Failed> {
        Endpoint::open_to(provider, address, true)
    }

    /// The same, but if it is not to `wait`, [`waits`](Self::waits) is [`Waits::Never`].
    fn open_to(provider: &Provider, address: IpAddr, wait: bool) -> Result<Endpoint<T>, Failed> {
        Ok(Endpoint {
            raw: RawEndpoint::open(provider, address, ENTRIES, wait)?,
            regions: Vec::new(),
            buffers: Buffers::default(),
            under_way: Vec::new(),
            shared: None,
        })
    }

    /// What its peer has to know of it.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn name(&self) -> Result<Vec<u8>, Failed> {
        self.raw.name()
    }

    /// Sets whom operations go to, by its name.
    ///
    /// # Errors
    /// It is no name of this provider.
    pub fn set_peer(&mut self, name: &[u8]) -> Result<(), Failed> {
        self.raw.set_peer(name)
    }

    /// What tells that there is something to do.
    pub fn waits(&mut self) -> Waits {
        self.raw.waits()
    }

    /// A free slot of at least so many words.
    ///
    /// # Errors
    /// There is no memory for it, or libfabric does not register it.
    pub fn slot(&mut self, words: usize) -> Result<Slot, Failed> {
        if let Some(slot) = self.buffers.take(words) {
            return Ok(slot);
        }
        let block = Buffers::block(words);
        let block = block.ok_or_else(|| Failed::because("there is no memory"))?;
        if self.raw.registers_own() {
            let (at, count) = (block.as_ptr().cast_mut().cast(), block.len());
            // SAFETY: words of atomics may be written at any time. The block is freed after the
            // region and the endpoint are closed.
            let region = unsafe { self.raw.register(at, count, None)? };
            self.regions.push(region);
        }
        self.buffers.add(block, words);
        self.under_way.resize_with(self.buffers.len(), || None);
        Ok(self.buffers.take(words).expect("they are new"))
    }

    pub fn give_back(&mut self, slot: Slot) {
        self.buffers.give_back(slot);
    }

    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Begins an operation, which has the slot until it has [`ended`](Self::ended).
    ///
    /// # Errors
    /// It was not begun; slot and tag come back.
    pub fn begin(&mut self, slot: Slot, work: Work, tag: T) -> Result<(), (NotBegun, Slot, T)> {
        let extent = self.buffers.extent(&slot);
        let words = self.buffers.words(&slot);
        let region = self.regions.get(extent.block);
        let own = |count: usize| {
            assert!(count <= words.len());
            Own {
                words: words.as_ptr().cast_mut().cast(),
                count,
                region,
            }
        };
        let context = u64::from(slot.number());
        let raw = &self.raw;
        // SAFETY: the endpoint is open. The words are atomics, which may be written at any time,
        // and belong to this endpoint's blocks, which are freed after it is closed. Nobody else has
        // the slot: it was a value of the caller's, which is kept here until the queue says that
        // the operation is complete. All slots have more than three words.
        let begun = unsafe {
            match work {
                Work::Read(count, from) => raw.read(own(count), from, context),
                Work::Write(count, to) => raw.write(own(count), to, context),
                Work::CompareExchange(at) => raw.compare_exchange(own(3), at, context),
                Work::FetchAdd(at) => raw.fetch_add(own(3), at, context),
                Work::Send(count) => raw.send(own(count), context),
                Work::Receive => raw.receive(own(words.len()), context),
            }
        };
        match begun {
            Ok(()) => {
                // The value ends here. It is made again when the operation has ended.
                self.under_way[slot.number() as usize] = Some(tag);
                Ok(())
            }
            Err(error) => Err((error, slot, tag)),
        }
    }

    /// Takes operations that have ended. Software providers carry out what arrived meanwhile.
    ///
    /// # Errors
    /// The endpoint is broken.
    pub fn ended(&mut self, ended: &mut Vec<Ended<T>>) -> Result<(), Failed> {
        let mut events = Vec::new();
        self.raw.take(&mut events)?;
        for event in events {
            let number = event.context() as u32;
            let tag = self.under_way.get_mut(number as usize);
            let Some(tag) = tag.and_then(Option::take) else {
                continue;
            };
            ended.push(Ended {
                slot: self.buffers.returned(number),
                tag,
                result: event.into_result(),
            });
        }
        Ok(())
    }

    /// What operations are under way.
    pub fn under_way(&mut self) -> impl Iterator<Item = &mut T> {
        self.under_way.iter_mut().flatten()
    }
}

impl<T> Endpoint<T> {
    /// Lets the peer, or who knows the key, use a memory server's memory. The key is this one, as
    /// far as the provider lets one choose it. Returns how the peer names the first word.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn share(&mut self, memory: &Arc<MemoryServer>, key: u64) -> Result<Place, Failed> {
        let words = memory.memory();
        let at: *mut u64 = words.as_ptr().cast_mut().cast();
        // SAFETY: words of atomics may be read and written at any time. They stay until the region
        // is closed, as a share of their owner is kept with it.
        let region = unsafe { self.raw.register(at, words.len(), Some(key))? };
        let place = Place {
            at: match self.raw.names_addresses() {
                true => at.expose_provenance() as u64,
                false => 0,
            },
            key: region.key(),
        };
        self.shared = Some((region, Arc::clone(memory)));
        Ok(place)
    }

    /// Takes the memory from the peer. Says whether that was done: operations that arrive from then
    /// on fail. What is just arriving ends when the endpoint is dropped.
    pub fn revoke(&mut self) -> bool {
        let Some((region, memory)) = self.shared.take() else {
            return true;
        };
        // SAFETY: it is open, and not used after this if it was closed.
        let is_closed = unsafe { region.close() };
        if !is_closed {
            self.shared = Some((region, memory));
        }
        is_closed
    }
}

impl<T> Drop for Endpoint<T> {
    fn drop(&mut self) {
        let mut is_closed = self.revoke();
        for region in take(&mut self.regions) {
            // SAFETY: it is open, and not used after this.
            is_closed &= unsafe { region.close() };
        }
        // SAFETY: it is open, and not used after this. What is under way is discarded, as the
        // interface of `fi_close` says, and uses no memory any more.
        is_closed = unsafe { self.raw.close() } && is_closed;
        if !is_closed {
            // Something may still use the memory: it stays for good.
            forget(take(&mut self.buffers));
            forget(self.shared.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pool::CHUNK;

    /// Begins an operation and drives both sides until it has ended.
    fn done(
        [one, other]: [&mut Endpoint<u8>; 2],
        work: Work,
        words: &[u64],
        stream: &TcpStream,
    ) -> Result<Vec<u64>, Failed> {
        let slot = one.slot(8)?;
        one.buffers().put(&slot, words);
        let mut waiting = Some(slot);
        let begun = Instant::now();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        loop {
            if let Some(slot) = waiting.take() {
                match one.begin(slot, work, 7) {
                    Ok(()) => {}
                    Err((NotBegun::Again, slot, _)) => waiting = Some(slot),
                    Err((error, ..)) => return Err(error.into()),
                }
            }
            one.ended(&mut ours)?;
            other.ended(&mut theirs)?;
            if let Some(Ended { slot, tag, result }) = ours.pop() {
                assert_eq!(tag, 7);
                let words = one.buffers().copy(&slot, 8);
                one.give_back(slot);
                return result.map(|_| words);
            }
            one.waits().wait(stream, Duration::from_millis(1));
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    }

    /// With queues that can be waited at, and without.
    #[test]
    fn a_peer_uses_memory_until_it_is_revoked() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for wait in [true, false] {
            let provider = "tcp".parse().unwrap();
            let open = || Endpoint::open_to(&provider, Ipv4Addr::LOCALHOST.into(), wait).unwrap();
            let (mut one, mut other) = (open(), open());
            assert_eq!(one.waits() == Waits::Never, !wait);
            one.set_peer(&other.name().unwrap()).unwrap();
            other.set_peer(&one.name().unwrap()).unwrap();
            assert!(one.set_peer(b"too short").is_err());
            let memory = Arc::new(MemoryServer::new(CHUNK).unwrap());
            let Place { at, key } = other.share(&memory, 0x0123_4567_89ab_cdef).unwrap();
            let place = |offset| Place {
                at: at + offset,
                key,
            };
            let mut work = |work, words: &[u64]| {
                done([&mut one, &mut other], work, words, &stream).map(|words| words[..4].to_vec())
            };
            work(Work::Write(4, place(64)), &[1, 2, 3, 4]).unwrap();
            let read = work(Work::Read(4, place(72)), &[]).unwrap();
            assert_eq!(read, [2, 3, 4, 0]);
            let before = work(Work::CompareExchange(place(64)), &[9, 1, 0]).unwrap();
            assert_eq!(before[2], 1);
            let before = work(Work::FetchAdd(place(64)), &[5, 0, 0]).unwrap();
            assert_eq!(before[2], 9);
            assert!(other.revoke());
            let refused = done(
                [&mut one, &mut other],
                Work::Write(1, place(64)),
                &[7],
                &stream,
            );
            assert!(refused.is_err());
            let word = memory.memory()[8].load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(word, 14);
        }
    }
}
