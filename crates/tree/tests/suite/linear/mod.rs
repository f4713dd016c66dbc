//! Histories of operations side by side, judged by a checker written elsewhere:
//! `LinearizabilityTester` of the crate `stateright`.
//!
//! A *history* is what three threads asked of a map in one short round, what they were answered,
//! and from when until when each of that took; all questions and answers are numbered by one
//! counter. It is *linearizable* if each operation can be given a moment between its question and
//! its answer so that all of them, one after the other in this order, would be answered the same. A
//! round ends with reads of all keys, so that what was lost does not go unseen; the next one begins
//! with what these found.
//!
//! **Key by key.** Linearizability is local (Herlihy, Wing: "Linearizability: a correctness
//! condition for concurrent objects", TOPLAS 1990, §3.1): a history is linearizable if and only if
//! what was done to each object is. All point operations are on one key, so the objects are the
//! keys ([`cell::Cell`]), and each is judged by itself. The tester tries orders one by one, so
//! this, and short rounds, are what make it fast.
//!
//! **Scans** are promised to be linearizable record by record, not as a whole: no moment needs to
//! exist at which all that a scan showed was there. So a scan is noted down as a read of each key
//! that it passed: of the value that it showed, or of none, at some moment between the beginning of
//! the scan and when it showed that record or the next one. What is promised on top is checked as
//! well: ascending or descending order, so no record twice, and none out of bounds. Likewise
//! `get_many` is a get of each of its keys.
//!
//! **What is not seen.** The counter orders more than a map would by itself (its increments are
//! barriers), so missing barriers may go unnoticed here; the models in `sync` are for those. A seed
//! repeats what is asked, but not how threads meet; in `tests/interleavings.rs` it does.

pub mod call;
pub mod cell;
pub mod gate;
pub mod group;
pub mod history;
pub mod keys;

use std::sync::{Mutex, PoisonError};

use call::{Call, perform};
use group::{Group, ROUNDS};
use history::Log;
use keys::Keys;

use super::draw::{Draw, seed};
use super::{TestMap, arenas, effort, migrator, placing};

pub const THREADS: usize = 3;
/// Maps for one test: each placement four times, with either kind of keys.
pub const GROUPS: u64 = placing::ALL.len() as u64 * effort::times(4);

/// Held by the test that plays: beside another one, hardly two threads would meet, and they would
/// wait longer than they play.
static PLAYING: Mutex<()> = Mutex::new(());

/// How a call is made: by [`perform`], or with a mistake.
pub trait Perform<T>: Fn(&T, &Keys, Call, &mut Log<'_>) + Sync {}
impl<T, F: Fn(&T, &Keys, Call, &mut Log<'_>) + Sync> Perform<T> for F {}

/// What was seen of a group that is linearizable.
#[derive(Default)]
pub struct Seen {
    histories: usize,
    /// Histories in which threads met at a key.
    contended: usize,
    /// Nodes that went to faster and to slower memory.
    moved: (u64, u64),
}

/// Plays a group on a new map, and judges each round. If `moving`, nodes move meanwhile; that is
/// called by the thread that moves them.
pub fn judge<T: TestMap>(
    number: u64,
    seed: u64,
    moving: Option<fn()>,
    call: impl Perform<T>,
) -> Result<Seen, String> {
    let _playing = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
    let make = placing::ALL[number as usize % placing::ALL.len()];
    let (map, _) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
    let keys = Keys::of::<T>(number);
    let group = Group::new(&keys, seed, number, moving.is_some());
    group.fill(&map);
    group.have_copied(&map);
    let histories = match moving {
        None => group.play(&map, call),
        Some(first) => {
            let key = |draw: &mut Draw| {
                first();
                group.next_move(draw)
            };
            let draw = group.draw(ROUNDS, THREADS + 2);
            migrator::beside_at(&map, draw, key, || group.play(&map, call))
        }
    };
    let stats = map.stats();
    let mut seen = Seen {
        histories: histories.len(),
        contended: 0,
        moved: (stats.promoted, stats.demoted),
    };
    for (round, history) in histories.iter().enumerate() {
        seen.contended += usize::from(history.is_contended());
        let context =
            |why| format!("TIMBERLINE_SEED={seed}, group {number}, history {round}: {why}");
        history.judge().map_err(context)?;
    }
    Ok(seen)
}

fn judge_all<T: TestMap>(moving: Option<fn()>) {
    let (seed, mut all) = (seed(), Seen::default());
    for number in 0..GROUPS {
        let seen = judge::<T>(number, seed, moving, perform::<T>);
        let seen = seen.unwrap_or_else(|why| panic!("{why}"));
        all.histories += seen.histories;
        all.contended += seen.contended;
        all.moved.0 += seen.moved.0;
        all.moved.1 += seen.moved.1;
    }
    let Seen {
        histories,
        contended,
        moved: (promoted, demoted),
    } = all;
    println!(
        "{histories} histories, in {contended} of them threads met at a key; {promoted} nodes promoted, {demoted} demoted"
    );
    assert!(moving.is_none() || promoted > 0 && demoted > 0);
}

pub fn histories_are_linearizable_at_rest<T: TestMap>() {
    judge_all::<T>(None);
}

pub fn histories_are_linearizable_while_nodes_move<T: TestMap>() {
    judge_all::<T>(Some(|| {}));
}
