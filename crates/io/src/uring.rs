//! Requests carried out by io_uring (Axboe: "Efficient IO with io_uring", 2019).
//!
//! The ring belongs to the driver's thread. Others put requests into the queue and wake that thread
//! through an event file, on which the ring has a read of its own under way. A driver that is a
//! task of an event loop has none: the loop sleeps, and knows when the ring has something for it.
//!
//! `monoio` and `compio` bring a ring with an executor, on whose threads alone their files can be
//! used. Here any executor polls the futures, and a simulated disk can be in the ring's place.
//!
//! The ring knows files in advance, and no buffers: reads to such were not measurably shorter
//! (`docs/records/2026-11-29-registered-buffers.md`).
#![allow(unsafe_code)]

use std::io;
use std::mem::take;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

use crate::Buffer;
use crate::file::Place;
use crate::queue::{Action, Queue, Request};

/// Files that a ring can know in advance, which saves the kernel a look-up for each request.
const FILES: u32 = 1024;
/// The most requests that are under way at a time.
const MOST_DEPTH: usize = 4096;
/// Names the read of the event file, instead of a ticket.
const EVENT: u64 = u64::MAX;
/// A turn hands out a quarter of as many requests as are under way, within these bounds, even if
/// more have ended: what is asked for next is submitted while the thread works on the others. If
/// all were handed out at once, all would be submitted at once, and the device and the thread would
/// wait for each other.
const GROUP: RangeInclusive<usize> = 4..=8;
/// A call of the kernel costs microseconds where it tells a virtual disk of something new. So while
/// the thread has other work, entries wait until there are as many as a turn hands out, or for this
/// many turns. Before it sleeps, none waits.
const PATIENCE: u32 = 4;
/// One of so many bytes waits for no others, and a sync does not: the call is little beside what
/// they take, and who makes large ones has turns that take long.
const LARGE: usize = 64 << 10;

/// A ring, and the requests that the kernel works on.
pub(crate) struct Ring {
    ring: IoUring,
    queue: Arc<Queue>,
    depth: usize,
    /// By ticket.
    requests: Vec<Option<Request>>,
    under_way: usize,
    /// Turns since the last call of the kernel.
    deferred: u32,
    /// Whether an entry is not to wait.
    is_urgent: bool,
    /// Numbers of files that are free, `None` where there is no table of files.
    free_files: Option<Vec<u32>>,
    /// What ends its sleep, unless an event loop sleeps for it.
    event: Option<Event>,
}

/// An event file that the ring reads.
struct Event {
    file: Arc<OwnedFd>,
    /// The kernel's buffer for the read; alive as long as the ring.
    count: Box<u64>,
    is_read: bool,
}

impl Ring {
    /// One that sleeps itself, and knows files by numbers if it is its disk's first: they have one
    /// number.
    pub fn new(queue: &Arc<Queue>, depth: usize, is_first: bool) -> io::Result<Ring> {
        let mut ring = Ring::of_a_loop(queue, depth)?;
        if is_first && ring.ring.submitter().register_files_sparse(FILES).is_ok() {
            ring.free_files = Some((0..FILES).rev().collect());
        }
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let bell = Arc::clone(&event);
        queue.bell().set_waker(move || {
            // It fails only if the counter overflows: after 2^64 − 2 rings that were not read.
            let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
        });
        ring.event = Some(Event {
            file: event,
            count: Box::new(0),
            is_read: false,
        });
        Ok(ring)
    }

    /// One for which an event loop sleeps.
    pub fn of_a_loop(queue: &Arc<Queue>, depth: usize) -> io::Result<Ring> {
        let depth = depth.clamp(1, MOST_DEPTH);
        // One more for the event file, if it has one.
        let entries = depth as u32 + 1;
        let cooperative = IoUring::builder()
            .setup_clamp()
            .setup_coop_taskrun()
            .build(entries);
        // Kernels before 5.19 do not know the first flag.
        let ring = cooperative.or_else(|_| IoUring::builder().setup_clamp().build(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel is older than 5.11",
            ));
        }
        Ok(Ring {
            ring,
            queue: Arc::clone(queue),
            depth,
            requests: Vec::new(),
            under_way: 0,
            deferred: 0,
            is_urgent: false,
            free_files: None,
            event: None,
        })
    }

    /// Gives waiting requests to the kernel and takes complete ones back. Waits for so long if
    /// there is nothing to do.
    pub fn turn(&mut self, wait: Duration) {
        self.forget_files();
        self.begin_waiting();
        self.listen();
        let group = self.group();
        let are_few = self.ring.submission().len() < group;
        let is_early = self.deferred < PATIENCE && are_few && !take(&mut self.is_urgent);
        let has_completions = !self.ring.completion().is_empty();
        let has_room = self.has_room();
        let mut is_deferred = false;
        let mut go_on = || {
            is_deferred = is_early;
            match is_early {
                true => Ok(0),
                false => self.ring.submit(),
            }
        };
        let time = types::Timespec::from(wait);
        let submitter = self.ring.submitter();
        let sleep = || match wait {
            Duration::MAX => submitter.submit_and_wait(1),
            _ => submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time)),
        };
        let submitted = match (wait, has_completions) {
            (Duration::ZERO, _) => self.ring.submit(),
            (_, true) => go_on(),
            (_, false) => self.queue.sleep(has_room, sleep, go_on),
        };
        self.deferred = if is_deferred { self.deferred + 1 } else { 0 };
        // Where the ring is refused, whoever asks for more learns that.
        let _ = self.end_complete(submitted, group);
        // Those whose requests ended have rung. They are looked at between this turn and the next,
        // which would be one without a sleep for nothing otherwise, and leave their requests
        // waiting for company.
        self.queue.bell().settle();
    }

    /// The same without a sleep, nor a call of the kernel for nothing. Returns whether there is
    /// more to do: requests have ended that were not handed out, or the kernel took none for now.
    ///
    /// # Errors
    /// The kernel refuses the ring: all of its requests have failed.
    pub fn turn_now(&mut self) -> io::Result<bool> {
        self.begin_waiting();
        let has_none = self.ring.submission().is_empty();
        let submitted = match has_none {
            true => Ok(0),
            false => self.ring.submit(),
        };
        self.end_complete(submitted, self.group())?;
        let has_completions = !self.ring.completion().is_empty();
        Ok(has_completions || !self.ring.submission().is_empty())
    }

    /// Whether it can have another request under way.
    pub fn has_room(&self) -> bool {
        self.under_way < self.depth
    }

    /// Completions that a turn hands out at most.
    fn group(&self) -> usize {
        (self.under_way / 4).clamp(*GROUP.start(), *GROUP.end())
    }

    fn begin_waiting(&mut self) {
        while self.has_room()
            && let Some((ticket, request)) = self.queue.take()
        {
            self.begin(ticket, request);
        }
    }

    fn begin(&mut self, ticket: usize, request: Request) {
        let registered = self.registered(&request);
        if self.requests.len() <= ticket {
            self.requests.resize_with(ticket + 1, || None);
        }
        let request = self.requests[ticket].insert(request);
        let Place::Real { file, .. } = &request.file.place else {
            unreachable!("a simulated disk has no ring");
        };
        self.is_urgent |= request.range.len() >= LARGE || request.action == Action::Sync;
        let (fixed, plain) = (registered.map(types::Fixed), types::Fd(file.as_raw_fd()));
        let bytes = &mut request.buffer[request.range.clone()];
        let (start, len, offset) = (bytes.as_mut_ptr(), bytes.len() as u32, request.offset);
        let entry = match (request.action, fixed) {
            (Action::Read, Some(file)) => {
                opcode::Read::new(file, start, len).offset(offset).build()
            }
            (Action::Read, None) => opcode::Read::new(plain, start, len).offset(offset).build(),
            (Action::Write, Some(file)) => {
                opcode::Write::new(file, start, len).offset(offset).build()
            }
            (Action::Write, None) => opcode::Write::new(plain, start, len).offset(offset).build(),
            (Action::Sync, Some(file)) => sync(opcode::Fsync::new(file)),
            (Action::Sync, None) => sync(opcode::Fsync::new(plain)),
        };
        self.push(&entry.user_data(ticket as u64));
        self.under_way += 1;
    }

    /// A file's number in the ring's table; `None` where it has no place there.
    fn registered(&mut self, request: &Request) -> Option<u32> {
        let free = self.free_files.as_mut()?;
        let Place::Real { file, registered } = &request.file.place else {
            return None;
        };
        if let Some(number) = registered.load(Relaxed).checked_sub(1) {
            return Some(number);
        }
        let number = free.pop()?;
        match self
            .ring
            .submitter()
            .register_files_update(number, &[file.as_raw_fd()])
        {
            Ok(_) => {
                // Only this thread stores it, and it is dropped with the request's handle.
                registered.store(number + 1, Relaxed);
                Some(number)
            }
            Err(_) => {
                free.push(number);
                None
            }
        }
    }

    /// Closes the ring's own references to files that were closed.
    fn forget_files(&mut self) {
        const NONE: RawFd = -1;
        for (number, file) in self.queue.take_released() {
            // Where that fails, the file stays open as long as the ring.
            if self
                .ring
                .submitter()
                .register_files_update(number, &[NONE])
                .is_ok()
            {
                self.free_files.get_or_insert_default().push(number);
            }
            self.queue.close_aside(file);
        }
    }

    /// Has a read of the event file under way.
    fn listen(&mut self) {
        if let Some(event) = self.event.as_mut().filter(|it| !it.is_read) {
            let start = std::ptr::from_mut(&mut *event.count).cast();
            let read = opcode::Read::new(types::Fd(event.file.as_raw_fd()), start, 8);
            event.is_read = true;
            self.push(&read.build().user_data(EVENT));
        }
    }

    /// Puts an entry into the ring, which has space for `depth` and the event.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what an entry points to lives until its completion: buffers in `requests` (their
        // bytes do not move when that vector grows), open files by the handles there, and the event
        // file and its count with the ring, whose `drop` waits.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the ring has an entry for each request under way");
    }

    /// Hands out so many completions after this call of the kernel.
    fn end_complete(&mut self, submitted: io::Result<usize>, most: usize) -> io::Result<()> {
        if let Err(error) = submitted
            && !is_passing(&error)
        {
            self.give_up(&error);
            return Err(error);
        }
        let (_, _, completions) = self.ring.split();
        for completion in completions.take(most) {
            if completion.user_data() == EVENT {
                self.event.iter_mut().for_each(|it| it.is_read = false);
                continue;
            }
            let ticket = completion.user_data() as usize;
            let request = self.requests[ticket]
                .take()
                .expect("each entry completes once");
            self.under_way -= 1;
            let result = match completion.result() {
                moved @ 0.. => Ok(moved as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
            // The receiver of the result may close the file, so this handle is dropped first.
            drop(request.file);
            self.queue.complete(ticket, (request.buffer, result));
        }
        Ok(())
    }

    /// The kernel refuses the ring: everything fails, now and later. The buffers are leaked, since
    /// it is unknown when the kernel is done with them.
    fn give_up(&mut self, error: &io::Error) {
        self.queue.close();
        for (ticket, request) in self.requests.iter_mut().enumerate() {
            if let Some(request) = request.take() {
                std::mem::forget(request.buffer);
                let failed = io::Error::new(error.kind(), format!("io_uring failed: {error}"));
                self.queue
                    .complete(ticket, (Buffer::default(), Err(failed)));
            }
        }
        if let Some(event) = &mut self.event {
            std::mem::forget(take(&mut event.count));
            event.is_read = false;
        }
        self.under_way = 0;
    }
}

impl Drop for Ring {
    /// The kernel may still write to buffers: waits until it has finished with all of them.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(event) = &self.event {
            // Ends its read.
            let _ = rustix::io::write(&*event.file, &1u64.to_ne_bytes());
        }
        while self.under_way > 0 || self.event.as_ref().is_some_and(|it| it.is_read) {
            let submitted = self.ring.submit_and_wait(1);
            let _ = self.end_complete(submitted, usize::MAX);
        }
    }
}

impl AsFd for Ring {
    /// Readable when requests have ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as this is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

fn sync(entry: opcode::Fsync) -> squeue::Entry {
    entry.flags(types::FsyncFlags::DATASYNC).build()
}

/// Whether the call may simply be repeated after completions were taken.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    // The last one: the time that it was to wait is over.
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY, Errno::TIME].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}
