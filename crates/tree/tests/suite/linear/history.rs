//! What threads asked in one round, what they were answered, and when; and the verdict on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::THREADS;
use super::cell::{Answer, Cell, Op};
use crate::suite::draw::Draw;

/// An operation on one key, of whom, from when until when.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub thread: usize,
    pub key: u64,
    pub op: Op,
    pub answer: Answer,
    pub asked: u64,
    pub answered: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event {
            thread,
            key,
            op,
            answer,
            asked,
            answered,
        } = self;
        write!(
            f,
            "{asked:>6}..{answered:<6} thread {thread}  key {key}  {op:?} -> {answer:?}"
        )
    }
}

/// What one thread notes down.
pub struct Log<'a> {
    thread: usize,
    /// All threads' time: every question and every answer takes a number of its own.
    clock: &'a AtomicU64,
    draw: Draw,
    pub events: Vec<Event>,
    /// What a scan may never do, beside showing wrong values.
    pub disorder: Vec<String>,
}

impl<'a> Log<'a> {
    pub fn new(thread: usize, clock: &'a AtomicU64, draw: Draw) -> Log<'a> {
        Log {
            thread,
            clock,
            draw,
            events: Vec::new(),
            disorder: Vec::new(),
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    pub fn draw(&mut self) -> &mut Draw {
        &mut self.draw
    }

    /// The records that gets found.
    pub fn found(&self) -> BTreeMap<u64, u64> {
        let found = self.events.iter().filter_map(|event| match event.answer {
            Answer::Was(value) => Some((event.key, value?)),
            Answer::Exchanged(_) => None,
        });
        found.collect()
    }

    /// Within a scan, once in a while: lets the others go on.
    pub fn linger(&mut self) {
        if self.draw.once_in(4) {
            std::thread::yield_now();
        }
    }

    /// Notes what was asked of one key from `asked` until now.
    pub fn note(&mut self, key: u64, op: Op, answer: Answer, asked: u64) {
        let answered = self.now();
        self.note_until(key, op, answer, (asked, answered));
    }

    pub fn note_until(&mut self, key: u64, op: Op, answer: Answer, (asked, answered): (u64, u64)) {
        self.events.push(Event {
            thread: self.thread,
            key,
            op,
            answer,
            asked,
            answered,
        });
    }
}

/// One round.
pub struct History {
    /// The records at its beginning.
    before: BTreeMap<u64, u64>,
    events: Vec<Event>,
    disorder: Vec<String>,
}

impl History {
    /// Of what all threads noted down.
    pub fn of<'a>(before: BTreeMap<u64, u64>, logs: impl IntoIterator<Item = Log<'a>>) -> History {
        let (mut events, mut disorder) = (Vec::new(), Vec::new());
        for log in logs {
            events.extend(log.events);
            disorder.extend(log.disorder);
        }
        History {
            before,
            events,
            disorder,
        }
    }

    /// Whether it can be explained, each key by itself; if not, what cannot.
    pub fn judge(&self) -> Result<(), String> {
        if !self.disorder.is_empty() {
            return Err(format!("{}\n{self}", self.disorder.join("\n")));
        }
        for (key, events) in self.by_key() {
            let before = self.before.get(&key).copied();
            if !is_linearizable(before, &events) {
                return Err(format!(
                    "no order of what was done to key {key} explains the answers; at first it had {before:?}\n{}\nof all this:\n{self}",
                    lines(&events)
                ));
            }
        }
        Ok(())
    }

    /// Whether two threads were at one key at once, and one of them wrote.
    pub fn is_contended(&self) -> bool {
        self.by_key().values().any(|events| {
            events.iter().enumerate().any(|(at, one)| {
                events[at + 1..]
                    .iter()
                    .take_while(|other| other.asked < one.answered)
                    .any(|other| one.op != Op::Get || other.op != Op::Get)
            })
        })
    }

    /// Each key's events, as they were asked.
    fn by_key(&self) -> BTreeMap<u64, Vec<Event>> {
        let mut keys = BTreeMap::<_, Vec<_>>::new();
        for &event in &self.events {
            keys.entry(event.key).or_default().push(event);
        }
        for events in keys.values_mut() {
            events.sort_by_key(|event| event.asked);
        }
        keys
    }
}

/// All but the reads at the end.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before: {:?}", self.before)?;
        let played = |event: &&Event| event.thread < THREADS;
        let mut events: Vec<_> = self.events.iter().filter(played).copied().collect();
        events.sort_by_key(|event| event.asked);
        f.write_str(&lines(&events))
    }
}

fn lines(events: &[Event]) -> String {
    let lines: Vec<_> = events.iter().map(Event::to_string).collect();
    lines.join("\n")
}

/// The verdict of the tester on what was done to one key.
fn is_linearizable(before: Option<u64>, events: &[Event]) -> bool {
    let asked = events.iter().map(|event| (event.asked, true, event));
    let answered = events.iter().map(|event| (event.answered, false, event));
    let mut moments: Vec<_> = asked.chain(answered).collect();
    moments.sort_by_key(|&(when, asked, _)| (when, asked));
    let mut tester = LinearizabilityTester::new(Cell(before));
    for (_, asked, event) in moments {
        let noted = match asked {
            true => tester.on_invoke(event.thread, event.op),
            false => tester.on_return(event.thread, event.answer),
        };
        noted.expect("a thread asks one thing of a key at a time");
    }
    tester.is_consistent()
}
