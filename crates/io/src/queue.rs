//! Requests, kept until their results are fetched.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::Buffer;
use crate::aside::Aside;
use crate::file::Handle;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Read,
    Write,
    /// All that was written is on the disk when it completes.
    Sync,
}

/// One transfer between a part of a buffer and a place in a file.
pub(crate) struct Request {
    pub file: Arc<Handle>,
    pub action: Action,
    pub buffer: Buffer,
    pub range: Range<usize>,
    pub offset: u64,
}

impl Request {
    /// Carries the request out on this thread.
    pub fn carry_out(self, ticket: Ticket, queue: &Queue) {
        let Request {
            file,
            action,
            mut buffer,
            range,
            offset,
        } = self;
        let result = file.perform(action, &mut buffer[range], offset);
        // The receiver of the result may close the file, so this handle is dropped first.
        drop(file);
        queue.complete(ticket, (buffer, result));
    }

    /// Ends the request without carrying it out.
    pub fn fail(self, ticket: Ticket, queue: &Queue) {
        queue.complete(ticket, (self.buffer, Err(gone())));
    }
}

fn gone() -> io::Error {
    io::Error::other("the disk's driver is gone")
}

/// A buffer that comes back, and the bytes transferred.
pub(crate) type Completion = (Buffer, io::Result<usize>);

/// Names a request until its result is fetched.
pub(crate) type Ticket = usize;

enum Slot {
    Waiting(Option<Waker>),
    /// Its future was dropped.
    Abandoned,
    Done(Completion),
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Ticket, Request)>,
    slots: Slab<Slot>,
    /// Files that were closed and that the ring still knows, with their numbers there.
    released: Vec<(u32, Arc<File>)>,
    closed: bool,
}

/// What a disk was asked to do so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Reads of files.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Writes to files.
    pub writes: u64,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Times that all that was written to a file had to be on the disk.
    pub syncs: u64,
}

impl Counts {
    fn add(&mut self, request: &Request) {
        let bytes = request.range.len() as u64;
        match request.action {
            Action::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Action::Write => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
            Action::Sync => self.syncs += 1,
        }
    }
}

/// The shared state of a disk, its files, its futures and a driver.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// A request came, or the queue was closed.
    changed: Condvar,
    bell: Bell,
    shared: Arc<Shared>,
}

/// What all queues of a disk share.
#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    aside: Aside,
}

thread_local! {
    /// The queue of the driver that runs on this thread: a future, or as a task.
    static CURRENT: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// Has requests that this thread makes go to a queue, until it is dropped.
pub(crate) struct Entered {
    before: Option<Arc<Queue>>,
    /// It is dropped by the same thread.
    _here: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

impl Queue {
    /// Another one of the same disk.
    pub fn beside(&self) -> Queue {
        Queue {
            shared: Arc::clone(&self.shared),
            ..Queue::default()
        }
    }

    /// Has requests of its disk that this thread makes come to it.
    pub fn enter(self: &Arc<Queue>) -> Entered {
        Entered {
            before: CURRENT.replace(Some(Arc::clone(self))),
            _here: PhantomData,
        }
    }

    /// Has requests that this thread makes go to the first queue of their disk.
    pub fn leave() -> Entered {
        Entered {
            before: CURRENT.take(),
            _here: PhantomData,
        }
    }

    /// The one to which this thread's requests go: this, or another one of the same disk.
    pub fn of_this_thread(self: &Arc<Queue>) -> Arc<Queue> {
        CURRENT.with_borrow(|current| {
            let current = current.as_ref();
            let current = current.filter(|it| Arc::ptr_eq(&it.shared, &self.shared));
            Arc::clone(current.unwrap_or(self))
        })
    }

    /// What was asked for so far, of all queues of the disk.
    pub fn counts(&self) -> Counts {
        *self.counting()
    }

    fn counting(&self) -> MutexGuard<'_, Counts> {
        self.shared
            .counts
            .lock()
            .unwrap_or_else(|it| it.into_inner())
    }

    /// Adds a request.
    pub fn push(&self, request: Request) -> Ticket {
        self.counting().add(&request);
        let mut state = self.lock();
        let ticket = state.slots.insert(Slot::Waiting(None));
        if state.closed {
            state.slots[ticket] = Slot::Done((request.buffer, Err(gone())));
            return ticket;
        }
        state.waiting.push_back((ticket, request));
        drop(state);
        self.changed.notify_one();
        self.bell.wake();
        ticket
    }

    /// A ticket for what is done [aside](crate::aside).
    pub fn new_ticket(&self) -> Ticket {
        self.lock().slots.insert(Slot::Waiting(None))
    }

    /// Makes calls that may take long.
    pub fn aside(&self) -> &Aside {
        &self.shared.aside
    }

    /// Drops the last handle of a file aside: to close one that was removed frees its blocks.
    pub fn close_aside(&self, file: Arc<File>) {
        self.aside().run(|| drop(file));
    }

    /// Takes the oldest request that was not begun, if there is one.
    pub fn take(&self) -> Option<(Ticket, Request)> {
        self.lock().waiting.pop_front()
    }

    /// The same, but waits for one; `None` when the queue is closed.
    pub fn wait_for_request(&self) -> Option<(Ticket, Request)> {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                return Some(request);
            }
            if state.closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(|it| it.into_inner());
        }
    }

    /// Stores a request's result and wakes its future.
    pub fn complete(&self, ticket: Ticket, completion: Completion) {
        let mut state = self.lock();
        let waker = match &mut state.slots[ticket] {
            Slot::Waiting(waker) => {
                let waker = waker.take();
                state.slots[ticket] = Slot::Done(completion);
                waker
            }
            Slot::Abandoned => {
                state.slots.remove(ticket);
                None
            }
            Slot::Done(_) => unreachable!("a request completes once"),
        };
        drop(state);
        let Some(waker) = waker else { return };
        if !thread::panicking() {
            return waker.wake();
        }
        // A waker is code of others. One has panicked, so requests end here while the thread
        // unwinds, and a second panic that left this would end the process.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }

    /// The result of a request, once: its ticket then means nothing any more.
    pub fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Completion> {
        let mut state = self.lock();
        match &mut state.slots[ticket] {
            Slot::Waiting(stored) => {
                match stored {
                    Some(stored) => stored.clone_from(waker),
                    None => *stored = Some(waker.clone()),
                }
                Poll::Pending
            }
            _ => match state.slots.remove(ticket) {
                Slot::Done(completion) => Poll::Ready(completion),
                _ => unreachable!("only its future polls a ticket"),
            },
        }
    }

    /// Forgets a request whose future was dropped. One that was not begun is not executed.
    pub fn abandon(&self, ticket: Ticket) {
        let mut state = self.lock();
        if let Some(at) = state.waiting.iter().position(|it| it.0 == ticket) {
            state.waiting.remove(at);
            state.slots.remove(ticket);
        } else if matches!(state.slots[ticket], Slot::Done(_)) {
            state.slots.remove(ticket);
        } else {
            state.slots[ticket] = Slot::Abandoned;
        }
    }

    /// Closes the queue: requests that were not begun fail, and so do later ones.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let never_begun = std::mem::take(&mut state.waiting);
        let released = std::mem::take(&mut state.released);
        drop(state);
        drop(released);
        for (ticket, request) in never_begun {
            request.fail(ticket, self);
        }
        self.changed.notify_all();
    }

    /// Whether the driver is gone.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Ends the sleep of the driver's thread.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Runs `sleep` on the driver's thread, or `go_on` if the bell has rung since the last time or
    /// requests wait that can begin.
    pub fn sleep<T>(
        &self,
        has_room: bool,
        sleep: impl FnOnce() -> T,
        go_on: impl FnOnce() -> T,
    ) -> T {
        let slept = match self.lie_down(has_room) {
            true => sleep(),
            false => go_on(),
        };
        self.bell.rise();
        slept
    }

    /// Says that the driver is about to sleep. Returns whether it may: the bell has not rung since
    /// the last time, and no requests wait that can begin.
    fn lie_down(&self, has_room: bool) -> bool {
        self.bell.asleep.store(true, SeqCst);
        !(self.bell.has_rung() || has_room && self.has_requests())
    }

    /// The same for a driver that is a task, which the bell wakes: it has to look at everything
    /// when this is ready or the task was woken.
    #[cfg(target_os = "linux")]
    pub fn poll_bell(&self, has_room: bool, waker: &Waker) -> Poll<()> {
        self.bell.waker.get_or_init(|| {
            let waker = waker.clone();
            Box::new(move || waker.wake_by_ref())
        });
        match self.lie_down(has_room) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    /// Sleeps on the driver's thread until the bell rings, or a request waits if the driver is to
    /// carry it out itself, or for so long.
    pub fn sleep_in_bed(&self, for_requests: bool, most: Duration) {
        let end = Instant::now().checked_add(most);
        self.bell.asleep.store(true, SeqCst);
        let mut bed = self.bell.bed.lock().unwrap_or_else(|it| it.into_inner());
        while !(self.bell.has_rung() || for_requests && self.has_requests()) {
            let left = end.map_or(Duration::MAX, |end| end - Instant::now().min(end));
            if left.is_zero() {
                break;
            }
            let waited = self.bell.changed.wait_timeout(bed, left);
            bed = waited.unwrap_or_else(|it| it.into_inner()).0;
        }
        drop(bed);
        self.bell.rise();
    }

    fn has_requests(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Files that the driver may forget, and their numbers in its table.
    pub fn take_released(&self) -> Vec<(u32, Arc<File>)> {
        std::mem::take(&mut self.lock().released)
    }

    /// The driver may forget a file, if it is there, which is closed then.
    pub fn release(&self, number: u32, file: Arc<File>) {
        let mut state = self.lock();
        if !state.closed {
            state.released.push((number, file));
            drop(state);
            // It may have nothing else to do for long.
            self.bell.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a waker leaves no state half changed: wakers run outside of the lock.
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// Ends the sleep of the driver's thread.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    /// Whether the thread sleeps, or is about to.
    asleep: AtomicBool,
    /// Where the thread sleeps, unless a ring does that.
    bed: Mutex<()>,
    changed: Condvar,
    /// Ends the sleep of a thread that waits for a ring.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Bell {
    /// Sleeps are of another kind, which this ends.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        // A queue has one driver.
        let _ = self.waker.set(Box::new(waker));
    }

    /// Ends the driver's sleep, or its next one.
    pub fn ring(&self) {
        if !self.rung.swap(true, SeqCst) {
            self.wake();
        }
    }

    /// Takes back what rang until now: the driver's thread looks at everything before it sleeps
    /// again.
    pub fn settle(&self) {
        self.rung.swap(false, SeqCst);
    }

    fn has_rung(&self) -> bool {
        self.rung.load(SeqCst)
    }

    /// The driver is awake and looks at everything after this.
    pub fn rise(&self) {
        self.asleep.store(false, SeqCst);
        self.rung.swap(false, SeqCst);
    }

    /// Ends the driver's sleep. Its next one does not begin if there are requests.
    fn wake(&self) {
        // The driver says that it sleeps before it looks whether there is a reason not to; here it
        // is the other way round. So one of the two sees the other.
        if self.asleep.load(SeqCst) {
            match self.waker.get() {
                Some(wake) => wake(),
                None => {
                    drop(self.bed.lock().unwrap_or_else(|it| it.into_inner()));
                    self.changed.notify_all();
                }
            }
        }
    }
}
