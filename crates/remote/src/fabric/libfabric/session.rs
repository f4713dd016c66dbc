//! Operations under way to one memory server, by one endpoint.
//!
//! Operations begin in their order. One that has timed out is *late*: libfabric goes on with it.
//! While any is late, none begins, so a late write changes nothing that was written after it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::buffers::{MAX_SLOT, Slot};
use super::endpoint::{Ended, Endpoint, Work};
use super::greeting::Token;
use super::library::Failed;
use super::native::{NotBegun, Place, Waits};
use super::server::{MESSAGE_WORDS, MESSAGES};
use crate::address::{Address, ServerId};
use crate::error::{Error, Result};
use crate::fabric::pending::{Pending, Waiting};
use crate::fabric::wire::{self, Asked, MAX_WORDS};
use crate::fabric::{Completer, Operation, Reply};

/// Operations under way at a time; others wait.
const UNDER_WAY: usize = 512;
/// The longest that an operation may be late, in deadlines.
const LATEST: u32 = 4;

const _: () = assert!(MAX_WORDS <= MAX_SLOT);

/// What the slot of an operation of libfabric is for.
pub enum Tag {
    Receive,
    Send,
    OneSided(OneSided),
}

/// An operation that needs no processor on the other side.
pub struct OneSided {
    operation: Operation,
    /// Of writes in order: which comes next, or is under way.
    part: usize,
    /// `None` if it is late.
    completer: Option<Completer>,
    deadline: Instant,
}

/// The session is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// One endpoint's operations.
pub struct Session {
    server: ServerId,
    endpoint: Endpoint<Tag>,
    memory: Place,
    bytes: u64,
    token: Token,
    deadline: Duration,
    /// Not begun yet.
    waiting: VecDeque<OneSided>,
    /// Operations of libfabric that are not complete, without receiving.
    under_way: usize,
    /// One-sided operations that are late.
    late: usize,
    /// Calls that were sent and have not timed out.
    calls: Pending,
    /// Calls that were sent and not answered.
    unanswered: usize,
    /// Since when something is late.
    held_since: Option<Instant>,
    is_broken: bool,
}

impl Session {
    /// A session by an endpoint that knows its peer.
    ///
    /// # Errors
    /// It cannot receive messages.
    pub fn new(
        server: ServerId,
        endpoint: Endpoint<Tag>,
        (memory, bytes): (Place, u64),
        token: Token,
        deadline: Duration,
    ) -> std::result::Result<Session, Failed> {
        let mut session = Session {
            server,
            endpoint,
            memory,
            bytes,
            token,
            deadline,
            waiting: VecDeque::new(),
            under_way: 0,
            late: 0,
            calls: Pending::default(),
            unanswered: 0,
            held_since: None,
            is_broken: false,
        };
        for _ in 0..MESSAGES {
            let slot = session.endpoint.slot(MESSAGE_WORDS)?;
            session.receive(slot)?;
        }
        Ok(session)
    }

    /// Begins an operation, or lets it wait for those before it. `Err`: it has ended.
    pub fn start(&mut self, operation: Operation, completer: Completer) {
        if let Some(result) = self.known(&operation) {
            return completer.complete(result);
        }
        self.waiting.push_back(OneSided {
            operation,
            part: 0,
            completer: Some(completer),
            deadline: Instant::now() + self.deadline,
        });
        self.begin_waiting();
    }

    /// The result of an operation that does not have to be begun for that.
    fn known(&self, operation: &Operation) -> Option<Result<Reply>> {
        let outside = |at: Address, words: usize| {
            let end = at.offset().checked_add(8 * words as u64);
            let is_within = end.is_some_and(|end| end <= self.bytes);
            (!is_within || !at.offset().is_multiple_of(8)).then_some(Err(Error::OutOfRange(at)))
        };
        match *operation {
            Operation::Read(at, words) => {
                let empty = || (words == 0).then(|| Ok(Reply::Words(Vec::new())));
                outside(at, words).or_else(empty)
            }
            Operation::Write(..) | Operation::WriteInOrder(_) => {
                let mut writes = operation.writes();
                let empty = || (operation.written_words() == 0).then_some(Ok(Reply::Written));
                writes
                    .find_map(|(at, words)| outside(at, words.len()))
                    .or_else(empty)
            }
            Operation::CompareExchange { at, .. } | Operation::FetchAdd(at, _) => outside(at, 1),
            Operation::Call(..) => None,
        }
    }

    /// Whether operations wait for others that are late.
    fn is_held(&self) -> bool {
        self.late > 0 || self.unanswered > self.calls.len()
    }

    /// What tells that there is something to do.
    pub fn waits(&mut self) -> Waits {
        self.endpoint.waits()
    }

    /// Whether operations wait that could begin: libfabric had no room for them.
    pub fn is_eager(&self) -> bool {
        !self.waiting.is_empty() && !self.is_held()
    }

    /// Begins what waits, in its order, as far as there is room.
    fn begin_waiting(&mut self) {
        while !self.is_broken && !self.is_held() && self.under_way < UNDER_WAY {
            let Some(next) = self.waiting.pop_front() else {
                return;
            };
            let begun = match next.operation {
                Operation::Call(..) if self.unanswered == MESSAGES => Err(next),
                Operation::Call(..) => self.call(next),
                _ => self.begin(next),
            };
            if let Err(next) = begun {
                self.waiting.push_front(next);
                return;
            }
        }
    }

    /// Begins the next part of a one-sided operation. It comes back if there is no room.
    fn begin(&mut self, next: OneSided) -> std::result::Result<(), OneSided> {
        let words = match next.operation {
            Operation::Read(_, words) => words,
            Operation::Write(..) | Operation::WriteInOrder(_) => {
                let part = next.operation.writes().nth(next.part);
                part.map_or(0, |(_, words)| words.len())
            }
            _ => 3,
        };
        let slot = match self.endpoint.slot(words) {
            Ok(slot) => slot,
            Err(failed) => {
                self.refuse(next.completer, &failed);
                return Ok(());
            }
        };
        let buffers = self.endpoint.buffers();
        let place = |at: Address| Place {
            at: self.memory.at + at.offset(),
            key: self.memory.key,
        };
        let work = match next.operation {
            Operation::Read(at, words) => Work::Read(words, place(at)),
            Operation::CompareExchange { at, old, new } => {
                buffers.put(&slot, &[new, old, 0]);
                Work::CompareExchange(place(at))
            }
            Operation::FetchAdd(at, add) => {
                buffers.put(&slot, &[add, 0, 0]);
                Work::FetchAdd(place(at))
            }
            _ => {
                let part = next.operation.writes().nth(next.part);
                let (at, words) = part.expect("calls are not one-sided");
                buffers.put(&slot, words);
                Work::Write(words.len(), place(at))
            }
        };
        match self.endpoint.begin(slot, work, Tag::OneSided(next)) {
            Ok(()) => {
                self.under_way += 1;
                Ok(())
            }
            Err((error, slot, tag)) => {
                self.endpoint.give_back(slot);
                let Tag::OneSided(next) = tag else {
                    unreachable!("it is what was passed");
                };
                self.not_begun(error, next)
            }
        }
    }

    /// Sends a call. It comes back if there is no room.
    fn call(&mut self, next: OneSided) -> std::result::Result<(), OneSided> {
        let slot = match self.endpoint.slot(MESSAGE_WORDS) {
            Ok(slot) => slot,
            Err(failed) => {
                self.refuse(next.completer, &failed);
                return Ok(());
            }
        };
        let number = self.calls.next();
        let mut bytes = Vec::new();
        wire::put_request(&mut bytes, number, &next.operation);
        let words = message(self.token, &bytes);
        self.endpoint.buffers().put(&slot, &words);
        match self
            .endpoint
            .begin(slot, Work::Send(words.len()), Tag::Send)
        {
            Ok(()) => {
                self.under_way += 1;
                self.unanswered += 1;
                let OneSided {
                    operation,
                    completer,
                    deadline,
                    ..
                } = next;
                let added = self.calls.add(Waiting {
                    asked: Asked::by(&operation),
                    completer: completer.expect("it is not late"),
                    deadline,
                });
                debug_assert_eq!(added, number);
                Ok(())
            }
            Err((error, slot, _)) => {
                self.endpoint.give_back(slot);
                self.not_begun(error, next)
            }
        }
    }

    fn not_begun(&mut self, error: NotBegun, next: OneSided) -> std::result::Result<(), OneSided> {
        if error != NotBegun::Again {
            // What waits ends with the session, and so does this.
            self.is_broken = true;
        }
        Err(next)
    }

    /// Ends an operation that cannot be begun.
    fn refuse(&self, completer: Option<Completer>, failed: &Failed) {
        let error = Error::Unreachable(self.server, failed.to_string());
        completer.expect("it is not late").complete(Err(error));
    }

    fn receive(&mut self, slot: Slot) -> std::result::Result<(), Failed> {
        match self.endpoint.begin(slot, Work::Receive, Tag::Receive) {
            Ok(()) => Ok(()),
            Err((error, slot, _)) => {
                self.endpoint.give_back(slot);
                Err(error.into())
            }
        }
    }

    /// Takes what libfabric says of operations, ends those whose deadline has passed, and begins
    /// those that wait. Adds the tasks that are to be woken.
    ///
    /// # Errors
    /// The session is of no use any more.
    pub fn go_on(
        &mut self,
        now: Instant,
        is_tick: bool,
        wakers: &mut Vec<Waker>,
    ) -> std::result::Result<(), Broken> {
        let mut all = Vec::new();
        self.endpoint.ended(&mut all).map_err(|_| Broken)?;
        let mut result = Ok(());
        for ended in all {
            // Each gives its slot back, and its operation its completer.
            result = result.and(self.ended(ended, wakers));
        }
        result?;
        if is_tick {
            self.end_late(now, wakers)?;
        }
        self.begin_waiting();
        match self.is_broken {
            true => Err(Broken),
            false => Ok(()),
        }
    }

    fn ended(
        &mut self,
        ended: Ended<Tag>,
        wakers: &mut Vec<Waker>,
    ) -> std::result::Result<(), Broken> {
        let Ended { slot, tag, result } = ended;
        self.under_way -= usize::from(!matches!(tag, Tag::Receive));
        let result = match (result, tag) {
            (Ok(bytes), Tag::Receive) => {
                let words = self.endpoint.buffers().copy(&slot, bytes / 8);
                self.receive(slot).map_err(|_| Broken)?;
                return self.reply(&words, wakers);
            }
            (Ok(_), Tag::Send) => Ok(()),
            (Ok(_), Tag::OneSided(done)) => {
                self.done(done, &slot, wakers);
                Ok(())
            }
            (Err(_), Tag::OneSided(failed)) => {
                // It ends as all others do, with the session.
                self.late -= usize::from(failed.completer.is_none());
                self.waiting
                    .extend(failed.completer.is_some().then_some(failed));
                Err(Broken)
            }
            (Err(_), _) => Err(Broken),
        };
        self.endpoint.give_back(slot);
        result
    }

    /// Ends a one-sided operation, or lets its next part wait.
    fn done(&mut self, mut done: OneSided, slot: &Slot, wakers: &mut Vec<Waker>) {
        let Some(completer) = &done.completer else {
            self.late -= 1;
            return;
        };
        let buffers = self.endpoint.buffers();
        let reply = match done.operation {
            Operation::Read(_, words) => Reply::Words(buffers.copy(slot, words)),
            Operation::CompareExchange { .. } | Operation::FetchAdd(..) => {
                Reply::Word(buffers.copy(slot, 3)[2])
            }
            _ => Reply::Written,
        };
        done.part += 1;
        match done.operation.writes().count() > done.part {
            true => self.waiting.push_front(done),
            false => wakers.extend(completer.put(Ok(reply))),
        }
    }

    /// Ends the call that a message answers. Messages of others are not looked at.
    fn reply(&mut self, words: &[u64], wakers: &mut Vec<Waker>) -> std::result::Result<(), Broken> {
        let Some(bytes) = of_message(self.token, words) else {
            return Ok(());
        };
        let Ok(Some(reply)) = wire::reply(&bytes) else {
            return Err(Broken);
        };
        self.unanswered = self.unanswered.checked_sub(1).ok_or(Broken)?;
        if let Some(waiting) = self.calls.take(reply.number) {
            let result = reply.result(waiting.asked, self.server);
            let lost = Err(Error::Lost(self.server));
            let is_malformed = result.is_err();
            wakers.extend(waiting.completer.put(result.unwrap_or(lost)));
            if is_malformed {
                return Err(Broken);
            }
        }
        Ok(())
    }

    /// Ends operations whose deadline has passed.
    fn end_late(
        &mut self,
        now: Instant,
        wakers: &mut Vec<Waker>,
    ) -> std::result::Result<(), Broken> {
        let mut late: Vec<Completer> = Vec::new();
        for waiting in &mut self.waiting {
            if waiting.deadline <= now {
                late.extend(waiting.completer.take());
            }
        }
        self.waiting.retain(|it| it.completer.is_some());
        for tag in self.endpoint.under_way() {
            if let Tag::OneSided(it) = tag
                && it.deadline <= now
                && let Some(completer) = it.completer.take()
            {
                self.late += 1;
                late.push(completer);
            }
        }
        let calls = self.calls.take_late(now).into_iter();
        late.extend(calls.map(|it| it.completer));
        let timed_out = Err(Error::TimedOut(self.server));
        wakers.extend(late.iter().filter_map(|it| it.put(timed_out.clone())));
        match self.is_held() {
            true => {
                let since = *self.held_since.get_or_insert(now);
                match now - since > LATEST * self.deadline {
                    true => Err(Broken),
                    false => Ok(()),
                }
            }
            false => {
                self.held_since = None;
                Ok(())
            }
        }
    }

    /// Closes the endpoint, and ends all operations with an error.
    pub fn end(mut self, error: &Error) {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let mut left: Vec<_> = waiting.filter_map(|it| it.completer).collect();
        for tag in self.endpoint.under_way() {
            if let Tag::OneSided(it) = tag {
                left.extend(it.completer.take());
            }
        }
        left.extend(self.calls.take_all().into_iter().map(|it| it.completer));
        // What is under way ends here.
        drop(self);
        for completer in left {
            completer.complete(Err(error.clone()));
        }
    }
}

/// The words of a message.
pub fn message(token: Token, bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    token.into_iter().chain(words).collect()
}

/// The bytes of a message, if its token is this one.
pub fn of_message(token: Token, words: &[u64]) -> Option<Vec<u8>> {
    let bytes = words.strip_prefix(&token)?;
    Some(bytes.iter().flat_map(|word| word.to_le_bytes()).collect())
}
