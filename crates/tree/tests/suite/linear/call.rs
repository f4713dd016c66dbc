//! What a thread asks of a map, and how it notes down what it is answered.

use std::ops::{Bound, ControlFlow};

use super::cell::{Answer, Op};
use super::history::Log;
use super::keys::Keys;
use crate::suite::TestMap;
use crate::suite::draw::Draw;

/// One call of a map's operations.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// An operation on one key.
    Point(u64, Op),
    /// A get, and an exchange of what it found for this.
    Exchange(u64, Option<u64>),
    /// Gets that overlap.
    Many([u64; 2]),
    /// A scan of this many records.
    Scan { from: u64, limit: usize },
    /// A scan between two keys.
    Range { low: u64, high: u64, backward: bool },
}

impl Call {
    /// One at random; of those that add or remove records, most add if the map is to grow.
    pub fn draw(draw: &mut Draw, keys: &Keys, hot: &[u64], value: u64, growing: bool) -> Call {
        let key = match draw.once_in(3) {
            true => keys.any(draw),
            false => hot[draw.below(hot.len() as u64) as usize],
        };
        match draw.below(16) {
            0..3 => Call::Point(key, Op::Get),
            3 if key != hot[0] => Call::Many([hot[0], key]),
            3 => Call::Many([hot[0], hot[1]]),
            4..6 => Call::Point(key, Op::Update(value)),
            6..8 => Call::Exchange(key, Some(value).filter(|_| !draw.once_in(4))),
            8..14 if draw.once_in(4) != growing => Call::Point(key, Op::Insert(value)),
            8..14 => Call::Point(key, Op::Remove),
            14 => Call::Scan {
                from: key,
                limit: 1 + draw.below(12) as usize,
            },
            _ => {
                let (low, high) = (key.min(hot[0]), key.max(hot[0]));
                let backward = draw.once_in(2);
                Call::Range {
                    low,
                    high,
                    backward,
                }
            }
        }
    }
}

/// Calls the map.
pub fn perform<T: TestMap>(map: &T, keys: &Keys, call: Call, log: &mut Log<'_>) {
    match call {
        Call::Point(key, op) => {
            point(map, key, op, log);
        }
        Call::Exchange(key, new) => {
            let Answer::Was(was) = point(map, key, Op::Get, log) else {
                unreachable!("a get tells what is there");
            };
            point(map, key, Op::Exchange(was, new), log);
        }
        Call::Many(wanted) => {
            let mut found = [None; 2];
            let asked = log.now();
            map.get_many(&wanted, &mut found);
            let answered = log.now();
            for (key, value) in wanted.into_iter().zip(found) {
                log.note_until(key, Op::Get, Answer::Was(value), (asked, answered));
            }
        }
        Call::Scan { from, limit } => scan(map, keys, from, limit, log),
        Call::Range {
            low,
            high,
            backward,
        } => range(map, keys, (low, high), backward, log),
    }
}

fn point<T: TestMap>(map: &T, key: u64, op: Op, log: &mut Log<'_>) -> Answer {
    let asked = log.now();
    let answer = match op {
        Op::Get => Answer::Was(map.get(key)),
        Op::Insert(value) => Answer::Was(map.insert(key, value).expect("there is room")),
        Op::Update(value) => Answer::Was(map.update(key, value)),
        Op::Exchange(current, new) => Answer::Exchanged(map.compare_exchange(key, current, new)),
        Op::Remove => Answer::Was(map.remove(key)),
    };
    log.note(key, op, answer, asked);
    answer
}

/// A record as a scan shows it, and when.
type Shown = (u64, u64, u64);

fn scan<T: TestMap>(map: &T, keys: &Keys, from: u64, limit: usize, log: &mut Log<'_>) {
    let asked = log.now();
    let mut shown = Vec::new();
    map.scan(from, limit, |key, value| {
        shown.push((key, value, log.now()));
        log.linger();
        ControlFlow::Continue(())
    });
    let end = (shown.len() < limit).then(|| log.now());
    passed(keys.from(from), &shown, (asked, end), log);
}

fn range<T: TestMap>(
    map: &T,
    keys: &Keys,
    (low, high): (u64, u64),
    backward: bool,
    log: &mut Log<'_>,
) {
    let asked = log.now();
    let mut shown = Vec::new();
    let mut range = map.range((Bound::Included(low), Bound::Included(high)));
    while let Some((key, value)) = match backward {
        true => range.next_back(),
        false => range.next(),
    } {
        shown.push((key, value, log.now()));
        log.linger();
    }
    let end = Some(log.now());
    let within = keys.from(low).filter(|&key| key <= high);
    match backward {
        true => passed(within.rev(), &shown, (asked, end), log),
        false => passed(within, &shown, (asked, end), log),
    }
}

/// Notes a read of each of `keys` that a scan in their order passed: until it showed the record, or
/// the next one, or came to its end. What it showed of other keys, or of these in another order, is
/// disorder.
pub fn passed(
    keys: impl Iterator<Item = u64>,
    shown: &[Shown],
    (asked, end): (u64, Option<u64>),
    log: &mut Log<'_>,
) {
    let mut rest = shown.iter().peekable();
    for key in keys {
        let (value, when) = match rest.next_if(|&&(shown, ..)| shown == key) {
            Some(&(_, value, when)) => (Some(value), when),
            None => match rest.peek().map(|&&(.., when)| when).or(end) {
                Some(when) => (None, when),
                None => return,
            },
        };
        log.note_until(key, Op::Get, Answer::Was(value), (asked, when));
    }
    if rest.next().is_some() {
        log.disorder
            .push(format!("a scan showed, with the times: {shown:?}"));
    }
}
