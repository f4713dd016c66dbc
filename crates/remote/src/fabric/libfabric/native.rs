//! libfabric's objects: a domain, a completion queue and an endpoint, which are open while a value
//! of Rust has them.
//!
//! Each endpoint has a domain and a queue for itself, and one thread at a time uses them: so
//! providers need no locks. libfabric 1.17 crashes when an endpoint is closed whose queue is read
//! later, or by another thread meanwhile.
//!
//! Nothing here owns memory that a network card reads or writes; `endpoint.rs` does.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;

use super::Provider;
use super::library::{
    Failed, Library, Opaque, RawEvent, text_of, tl_compare_exchange, tl_domain_close,
    tl_domain_key_bytes, tl_domain_names_addresses, tl_domain_open, tl_domain_registers_own,
    tl_endpoint_close, tl_endpoint_name, tl_endpoint_open, tl_endpoint_peer, tl_fetch_add,
    tl_queue_close, tl_queue_descriptor, tl_queue_open, tl_queue_take, tl_read, tl_receive,
    tl_region_close, tl_region_key, tl_region_open, tl_send, tl_wait, tl_write,
};

/// Bytes of the longest name of an endpoint.
pub const MAX_NAME: usize = 256;
/// Completions that are taken at a time.
const EVENTS: usize = 64;
/// Between two looks at a queue that cannot be waited at.
const POLL: Duration = Duration::from_micros(50);

/// `FI_EAGAIN`: there is no room, now.
const AGAIN: i64 = -11;

/// An operation that is complete: the context that it was begun with, and the bytes that were
/// received, or why it failed. Only an endpoint makes one, so there is one for each operation.
#[derive(Debug)]
pub struct Event {
    context: u64,
    result: Result<usize, Failed>,
}

impl Event {
    pub fn context(&self) -> u64 {
        self.context
    }

    pub fn into_result(self) -> Result<usize, Failed> {
        self.result
    }
}

/// Why an operation was not begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// There is no room for it, now.
    Again,
    /// It cannot be.
    Failed(Failed),
}

impl From<NotBegun> for Failed {
    fn from(error: NotBegun) -> Failed {
        match error {
            NotBegun::Again => Failed::because("there is no room"),
            NotBegun::Failed(failed) => failed,
        }
    }
}

fn begun(result: i64) -> Result<(), NotBegun> {
    match result {
        0 => Ok(()),
        AGAIN => Err(NotBegun::Again),
        error => Err(NotBegun::Failed(Failed::because(text_of(error)))),
    }
}

/// Memory of another machine, or of this one, as an operation names it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its address or its offset.
    pub at: u64,
    pub key: u64,
}

/// Words on this side, and the region that they are registered in, if they have to be.
#[derive(Clone, Copy)]
pub struct Own<'a> {
    pub words: *mut u64,
    pub count: usize,
    pub region: Option<&'a RawRegion>,
}

impl Own<'_> {
    fn region(&self) -> *mut Opaque {
        self.region.map_or(null_mut(), |it| it.0.as_ptr())
    }
}

/// Memory that an endpoint's network card may use, until it is closed.
pub struct RawRegion(NonNull<Opaque>);

// SAFETY: any thread may use it; one at a time does, as the endpoint that it is of is not `Sync`.
unsafe impl Send for RawRegion {}

/// What tells that an endpoint has something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// It has, now.
    Now,
    /// This descriptor becomes readable.
    At(RawFd),
    /// Nothing does.
    Never,
}

impl Waits {
    /// Waits until there is something to do, the stream says something, or the time is over.
    pub fn wait(self, stream: &TcpStream, time: Duration) {
        let milliseconds = c_int::try_from(time.as_millis().max(1)).unwrap_or(c_int::MAX);
        match self {
            Waits::Now => {}
            // SAFETY: descriptors are numbers here. If another thread has closed one, the wait is
            // for nothing, or for something else, and ends with the time.
            Waits::At(it) => unsafe { tl_wait(it, stream.as_raw_fd(), milliseconds) },
            Waits::Never => std::thread::sleep(POLL.min(time)),
        }
    }
}

/// An endpoint of libfabric with its domain and its queue. It has no memory of its own.
pub struct RawEndpoint {
    domain: NonNull<Opaque>,
    queue: NonNull<Opaque>,
    endpoint: NonNull<Opaque>,
}

// SAFETY: any thread may use these, one at a time (`FI_THREAD_DOMAIN`); this is not `Sync`.
unsafe impl Send for RawEndpoint {}

impl RawEndpoint {
    /// Opens a provider's network card of this address and an endpoint there. Providers whose cards
    /// have no IP addresses take their first one. The queue has room for so many completions. If it
    /// is not to `wait`, or the provider has no way to wait, [`waits`](Self::waits) says so.
    ///
    /// # Errors
    /// The library, or the provider, is not there; or it lacks something.
    pub fn open(
        provider: &Provider,
        address: IpAddr,
        entries: usize,
        wait: bool,
    ) -> Result<RawEndpoint, Failed> {
        let _: Library = Library::load()?;
        let name = CString::new(provider.name()).map_err(|_| Failed::because("not a name"))?;
        let source = CString::new(address.to_string()).expect("no zero byte");
        let source = match provider.has_addresses() {
            true => source.as_ptr(),
            false => null(),
        };
        let [mut domain, mut queue, mut endpoint] = [null_mut(); 3];
        // SAFETY: the library is loaded. The texts end with a zero byte and live until the call
        // returns.
        let error = unsafe { tl_domain_open(name.as_ptr(), source, &mut domain) };
        let Some(domain) = NonNull::new(domain).filter(|_| error == 0) else {
            return Err(Failed::because(format!(
                "libfabric has no provider `{provider}` at {address} with remote reads, writes and \
                 atomics of 8 bytes: {}",
                text_of(error.into())
            )));
        };
        let wait = c_int::from(wait);
        // SAFETY: the domain is open.
        let error = unsafe { tl_queue_open(domain.as_ptr(), entries as u64, wait, &mut queue) };
        let Some(queue) = NonNull::new(queue).filter(|_| error == 0) else {
            // SAFETY: it is open, and nothing in it.
            unsafe { tl_domain_close(domain.as_ptr()) };
            return Err(Failed::by("a completion queue", error.into()));
        };
        // SAFETY: both are open.
        let error = unsafe { tl_endpoint_open(domain.as_ptr(), queue.as_ptr(), &mut endpoint) };
        let Some(endpoint) = NonNull::new(endpoint).filter(|_| error == 0) else {
            // SAFETY: they are open, the endpoint is not.
            unsafe {
                tl_queue_close(queue.as_ptr());
                tl_domain_close(domain.as_ptr());
            }
            return Err(Failed::by("an endpoint", error.into()));
        };
        Ok(RawEndpoint {
            domain,
            queue,
            endpoint,
        })
    }

    /// Closes all. Says whether they are: only then is no memory of its operations used any more.
    ///
    /// # Safety
    /// It is not used again, and its regions are closed.
    pub unsafe fn close(&self) -> bool {
        // SAFETY: they are open, as the caller says.
        unsafe {
            let is_closed = tl_endpoint_close(self.endpoint.as_ptr()) == 0
                && tl_queue_close(self.queue.as_ptr()) == 0;
            if is_closed {
                tl_domain_close(self.domain.as_ptr());
            }
            is_closed
        }
    }

    /// Whether an endpoint's own memory has to be registered.
    pub fn registers_own(&self) -> bool {
        // SAFETY: the domain is open, as in all methods below.
        unsafe { tl_domain_registers_own(self.domain.as_ptr()) != 0 }
    }

    /// Whether a registered byte is named by its address, not by its offset.
    pub fn names_addresses(&self) -> bool {
        // SAFETY: as above.
        unsafe { tl_domain_names_addresses(self.domain.as_ptr()) != 0 }
    }

    /// Adds completions to `events`, if there are any. Providers whose operations need a processor
    /// make progress in here.
    ///
    /// # Errors
    /// The queue is broken.
    pub fn take(&mut self, events: &mut Vec<Event>) -> Result<(), Failed> {
        let mut raw = [RawEvent::default(); EVENTS];
        // SAFETY: the queue is open, and writes at most so many events.
        let got = unsafe { tl_queue_take(self.queue.as_ptr(), raw.as_mut_ptr(), EVENTS as u64) };
        let got = usize::try_from(got).map_err(|_| Failed::by("completions", got))?;
        events.extend(raw[..got].iter().map(|raw| Event {
            context: raw.context,
            result: match raw.error {
                0 => Ok(raw.bytes as usize),
                error => Err(Failed::because(text_of(error))),
            },
        }));
        Ok(())
    }

    /// What tells that there is something to do.
    pub fn waits(&mut self) -> Waits {
        // SAFETY: the queue is open.
        match unsafe { tl_queue_descriptor(self.queue.as_ptr()) } {
            -2 => Waits::Now,
            -1 => Waits::Never,
            descriptor => Waits::At(descriptor),
        }
    }

    /// What its peer has to know of it.
    ///
    /// # Errors
    /// What libfabric says.
    pub fn name(&self) -> Result<Vec<u8>, Failed> {
        let mut name = vec![0_u8; MAX_NAME];
        let at = name.as_mut_ptr().cast();
        // SAFETY: the endpoint is open; the call writes at most as many bytes as there are.
        let length = unsafe { tl_endpoint_name(self.endpoint.as_ptr(), at, MAX_NAME as u64) };
        let length = usize::try_from(length).map_err(|_| Failed::by("its name", length))?;
        name.truncate(length);
        Ok(name)
    }

    /// Sets whom operations go to, by its name.
    ///
    /// # Errors
    /// It is no name of this provider.
    pub fn set_peer(&mut self, name: &[u8]) -> Result<(), Failed> {
        // Names of one kind of address have one length.
        if name.len() != self.name()?.len() {
            return Err(Failed::because(
                "the other side has another kind of address",
            ));
        }
        // SAFETY: the endpoint is open; the name has the length of names.
        match unsafe { tl_endpoint_peer(self.endpoint.as_ptr(), name.as_ptr().cast()) } {
            0 => Ok(()),
            error => Err(Failed::by("the other side's address", error.into())),
        }
    }

    /// Registers so many words: for the endpoint's own operations, or, with a key, for all
    /// operations of its peer. The provider may choose another key.
    ///
    /// # Errors
    /// What libfabric says: the system may not let a process pin so much memory.
    ///
    /// # Safety
    /// The words may be read and written from here on until the region is closed; without a key, by
    /// operations of the endpoint.
    pub unsafe fn register(
        &mut self,
        words: *mut u64,
        count: usize,
        key: Option<u64>,
    ) -> Result<RawRegion, Failed> {
        // SAFETY: the domain is open.
        let bits = match unsafe { tl_domain_key_bytes(self.domain.as_ptr()) } {
            bytes @ 0..8 => (1 << (8 * bytes)) - 1,
            _ => u64::MAX,
        };
        let mut raw = null_mut();
        // SAFETY: domain and endpoint are open, the words are as the caller says.
        let error = unsafe {
            tl_region_open(
                self.domain.as_ptr(),
                self.endpoint.as_ptr(),
                words.cast(),
                8 * count as u64,
                key.is_some().into(),
                key.unwrap_or(0) & bits,
                &mut raw,
            )
        };
        match NonNull::new(raw).filter(|_| error == 0) {
            Some(raw) => Ok(RawRegion(raw)),
            None => Err(Failed::by("memory cannot be registered", error.into())),
        }
    }

    /// Begins to read memory of the peer.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// The endpoint is open. The words are memory that may be written from here on until the
    /// operation is complete or the endpoint is closed, as in all methods below.
    pub unsafe fn read(&self, own: Own<'_>, from: Place, context: u64) -> Result<(), NotBegun> {
        let (raw, count) = (self.endpoint.as_ptr(), own.count as u64);
        let (words, region, Place { at, key }) = (own.words, own.region(), from);
        // SAFETY: as the caller says.
        begun(unsafe { tl_read(raw, words, count, region, at, key, context) })
    }

    /// Begins to write memory of the peer.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// As of [`read`](Self::read), but the words are only read.
    pub unsafe fn write(&self, own: Own<'_>, to: Place, context: u64) -> Result<(), NotBegun> {
        let (raw, count) = (self.endpoint.as_ptr(), own.count as u64);
        let (words, region, Place { at, key }) = (own.words, own.region(), to);
        // SAFETY: as the caller says.
        begun(unsafe { tl_write(raw, words, count, region, at, key, context) })
    }

    /// Begins to replace a word of the peer. Of three words here, the first is the new one, the
    /// second the expected one; the third becomes the one before.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// As of [`read`](Self::read); there are at least three words.
    pub unsafe fn compare_exchange(
        &self,
        own: Own<'_>,
        place: Place,
        context: u64,
    ) -> Result<(), NotBegun> {
        let (raw, words, region) = (self.endpoint.as_ptr(), own.words, own.region());
        // SAFETY: as the caller says.
        begun(unsafe { tl_compare_exchange(raw, words, region, place.at, place.key, context) })
    }

    /// Begins to add the first of three words to one of the peer; the third becomes the one before.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// As of [`read`](Self::read); there are at least three words.
    pub unsafe fn fetch_add(
        &self,
        own: Own<'_>,
        place: Place,
        context: u64,
    ) -> Result<(), NotBegun> {
        let (raw, words, region) = (self.endpoint.as_ptr(), own.words, own.region());
        // SAFETY: as the caller says.
        begun(unsafe { tl_fetch_add(raw, words, region, place.at, place.key, context) })
    }

    /// Begins to send a message.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// As of [`write`](Self::write).
    pub unsafe fn send(&self, own: Own<'_>, context: u64) -> Result<(), NotBegun> {
        let (raw, count) = (self.endpoint.as_ptr(), own.count as u64);
        // SAFETY: as the caller says.
        begun(unsafe { tl_send(raw, own.words, count, own.region(), context) })
    }

    /// Begins to wait for a message.
    ///
    /// # Errors
    /// It was not begun.
    ///
    /// # Safety
    /// As of [`read`](Self::read).
    pub unsafe fn receive(&self, own: Own<'_>, context: u64) -> Result<(), NotBegun> {
        let (raw, count) = (self.endpoint.as_ptr(), own.count as u64);
        // SAFETY: as the caller says.
        begun(unsafe { tl_receive(raw, own.words, count, own.region(), context) })
    }
}

impl RawRegion {
    /// What the peer has to know of it.
    pub fn key(&self) -> u64 {
        // SAFETY: it is open.
        unsafe { tl_region_key(self.0.as_ptr()) }
    }

    /// Closes it. Says whether it is: only then is its memory not used any more.
    ///
    /// # Safety
    /// It is not used again if it was closed.
    pub unsafe fn close(&self) -> bool {
        // SAFETY: it is open, as the caller says.
        unsafe { tl_region_close(self.0.as_ptr()) == 0 }
    }
}
