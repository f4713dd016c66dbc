//! Histories of one key: whether they are linearizable.
//!
//! Herlihy, Wing: "Linearizability: a correctness condition for concurrent objects", TOPLAS 1990;
//! it is local (§3.1), so each key is judged by itself. Tests of the store and of the server
//! include this file. (Those of the maps, in `crates/tree/tests/suite/linear`, ask a checker that
//! was written elsewhere.)

#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::HashSet;

/// What is asked of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Get,
    Insert(u64),
    /// Of a value that is there.
    Update(u64),
    Remove,
    /// Of a value or none for another or none.
    Exchange(Option<u64>, Option<u64>),
    /// By one; of none, to 1.
    Increment,
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done.
    Done,
    /// What is there, or was there before.
    Was(Option<u64>),
    WasThere(bool),
    /// An exchange was done.
    Exchanged,
    /// It was not, since this is there.
    Refused(Option<u64>),
    /// What is there then.
    Is(u64),
}

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub key: u64,
    pub op: Op,
    pub begin: u64,
    /// `u64::MAX`, and no answer: it is not known whether it was done.
    pub end: u64,
    pub answer: Option<Answer>,
}

impl Op {
    /// What there is then.
    fn apply(self, value: Option<u64>) -> Option<u64> {
        match self {
            Op::Get => value,
            Op::Insert(new) => Some(new),
            Op::Update(new) => value.map(|_| new),
            Op::Remove => None,
            Op::Exchange(expected, new) if value == expected => new,
            Op::Exchange(..) => value,
            Op::Increment => Some(value.unwrap_or(0) + 1),
        }
    }

    /// Whether this can be the answer where a value is there.
    fn fits(self, answer: Answer, value: Option<u64>) -> bool {
        let may_be = match self {
            Op::Exchange(expected, _) => expected == value,
            _ => false,
        };
        match answer {
            Answer::Done => true,
            Answer::Was(was) => was == value,
            Answer::WasThere(was_there) => was_there == value.is_some(),
            Answer::Exchanged => may_be,
            Answer::Refused(there) => !may_be && there == value,
            Answer::Is(new) => Some(new) == self.apply(value),
        }
    }
}

/// Whether the operations on one key, which has nothing at first, can have been done one after the
/// other, each between its begin and its end (Wing and Gong: "Testing and Verifying Concurrent
/// Objects", JPDC 1993).
pub fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() <= 128);
    let all_known = events.iter().enumerate();
    let known = all_known.filter(|(_, it)| it.answer.is_some());
    let known = known.fold(0, |known: u128, (index, _)| known | 1 << index);
    let mut seen = HashSet::new();
    let mut left = vec![(0_u128, None)];
    while let Some((done, value)) = left.pop() {
        if known & !done == 0 {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let open = |index: &usize| done >> index & 1 == 0;
        let ends = (0..events.len()).filter(open).map(|it| events[it].end);
        let first_end = ends.min().unwrap_or(u64::MAX);
        for index in (0..events.len()).filter(open) {
            let event = events[index];
            let fits = event.answer.is_none_or(|it| event.op.fits(it, value));
            if event.begin <= first_end && fits {
                left.push((done | 1 << index, event.op.apply(value)));
            }
        }
    }
    false
}

/// Judges each key by itself. Those that are not linearizable, with what was done to them.
pub fn judge(events: &[Event]) -> Result<(), String> {
    let keys: std::collections::BTreeSet<u64> = events.iter().map(|it| it.key).collect();
    for key in keys {
        let mut of_key: Vec<_> = events.iter().filter(|it| it.key == key).copied().collect();
        of_key.sort_by_key(|it| it.begin);
        if !is_linearizable(&of_key) {
            let lines: Vec<_> = of_key
                .iter()
                .map(|it| {
                    let Event { op, begin, end, .. } = it;
                    format!("{begin:>6}..{end:<6} {op:?} -> {:?}", it.answer)
                })
                .collect();
            let lines = lines.join("\n");
            return Err(format!(
                "no order of what was done to key {key} explains the answers:\n{lines}"
            ));
        }
    }
    Ok(())
}

/// Whether two operations on a key overlap, and one of them is no get.
pub fn is_contended(events: &[Event]) -> bool {
    events.iter().enumerate().any(|(at, one)| {
        events[at + 1..].iter().any(|other| {
            one.key == other.key
                && (one.begin <= other.end && other.begin <= one.end)
                && (one.op != Op::Get || other.op != Op::Get)
        })
    })
}
