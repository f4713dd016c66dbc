//! The source of a thread's requests: the endless stream of a workload or of TPC-C's accesses, or
//! its part of a trace.

use std::iter::Cycle;
use std::sync::Arc;
use std::time::Duration;

use crate::trace::{Replay, Split, Timed, Trace};
use crate::workload::{
    Distribution, KeySpace, Request, Stream, Tpcc, TpccStream, Workload, load_order,
};

/// The requests of a run, shared by all maps and threads.
#[derive(Clone)]
pub enum Requests {
    /// A workload over a key space.
    Stream { workload: Workload, space: KeySpace },
    /// The accesses of TPC-C's transactions.
    Tpcc(Tpcc),
    /// A trace, repeated.
    Trace {
        trace: Arc<Trace>,
        /// The replay speed: requests follow the trace's timestamps (which it must have), sped up
        /// by this factor. `None` for a closed loop, in which each request waits for the response
        /// to the previous one.
        speed: Option<f64>,
    },
}

/// One thread's requests. Every request writes here, so two threads' sources share no cache line:
/// where their heap blocks happened to lie once made one map 1.5 times as fast as another.
#[repr(align(128))]
pub enum Source<'a> {
    /// An endless stream of a workload.
    Stream(Box<Stream>),
    /// An endless stream of TPC-C.
    Tpcc(Box<TpccStream>),
    /// The thread's part of a trace, repeated.
    Trace(Cycle<Replay<'a>>),
    /// The same, on the trace's schedule.
    Timed(Timed<'a>),
}

impl Requests {
    /// The requests of one of `threads` threads; the same for the same seed.
    ///
    /// # Panics
    /// If a trace without timestamps is to be replayed on schedule.
    pub fn source(&self, seed: u64, thread: usize, threads: usize) -> Source<'_> {
        match self {
            Requests::Stream { workload, space } => {
                let stream = workload.stream(space, seed, thread as u64, threads as u64);
                Source::Stream(Box::new(stream))
            }
            Requests::Tpcc(tpcc) => {
                let stream = tpcc.stream(seed, thread as u64, threads as u64);
                Source::Tpcc(Box::new(stream))
            }
            Requests::Trace { trace, speed: None } => {
                Source::Trace(trace.replay(thread, threads, Split::RoundRobin).cycle())
            }
            Requests::Trace {
                trace,
                speed: Some(speed),
            } => {
                let timed = trace.timed(thread, threads, *speed);
                Source::Timed(timed.expect("times are checked before"))
            }
        }
    }

    /// The accesses of each record, in the order of [`Requests::key`]: for a workload [by its
    /// distribution](Workload::frequencies), for a trace counted over all of it. `None` if unknown.
    pub fn frequencies(&self, seed: u64) -> Option<Vec<f32>> {
        match self {
            Requests::Stream { workload, space } => workload.frequencies(space, seed),
            Requests::Tpcc(_) => None,
            Requests::Trace { trace, .. } => Some(trace.frequencies()),
        }
    }

    /// Whether the hot set moves with the requests: records become hot as they are inserted.
    pub fn move_on(&self) -> bool {
        match self {
            Requests::Stream { workload, .. } => {
                matches!(workload.distribution(), Distribution::Latest { .. })
            }
            Requests::Tpcc(_) => true,
            Requests::Trace { .. } => false,
        }
    }

    /// The key of a loaded record, counted from 0.
    pub fn key(&self, id: u64) -> u64 {
        match self {
            Requests::Stream { space, .. } => space.key(id),
            Requests::Tpcc(tpcc) => tpcc.key(id),
            Requests::Trace { trace, .. } => trace.keys()[id as usize],
        }
    }

    /// The number of records loaded before.
    pub fn records(&self) -> u64 {
        match self {
            Requests::Stream { space, .. } => space.records(),
            Requests::Tpcc(tpcc) => tpcc.records(),
            Requests::Trace { trace, .. } => trace.keys().len() as u64,
        }
    }

    /// The fraction of requests that insert a record.
    pub fn inserts(&self) -> f64 {
        match self {
            Requests::Stream { workload, .. } => f64::from(workload.mix().insert) / 100.0,
            Requests::Tpcc(_) => Tpcc::INSERTS,
            Requests::Trace { .. } => 0.0,
        }
    }

    /// Whether later requests differ from earlier ones: they follow a trace, or insert records.
    pub fn go_on(&self) -> bool {
        matches!(self, Requests::Trace { .. }) || self.inserts() > 0.0
    }

    /// The keys that one of `threads` threads loads, in pseudo-random order.
    pub fn load(
        &self,
        seed: u64,
        thread: usize,
        threads: usize,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let order = load_order(self.records(), seed, thread as u64, threads as u64);
        order.map(move |id| self.key(id))
    }

    /// Moves the hot region of a workload, if it has one, to its place in `epoch`.
    pub fn set_hot_epoch(&self, epoch: u64) {
        if let Requests::Stream { workload, .. } = self {
            workload.hot_epoch().set(epoch);
        }
    }

    /// Its name in the report.
    pub fn name(&self) -> &str {
        match self {
            Requests::Stream { workload, .. } => workload.name(),
            Requests::Tpcc(tpcc) => tpcc.name(),
            Requests::Trace { .. } => "trace",
        }
    }
}

impl Source<'_> {
    /// The next request; there is always one.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "endless: an Option would be checked for nothing"
    )]
    pub fn next(&mut self) -> Request {
        match self {
            Source::Stream(stream) => stream.next(),
            Source::Tpcc(stream) => stream.next(),
            Source::Trace(replay) => replay.next().expect("a share of a trace is not empty"),
            Source::Timed(timed) => timed.next(),
        }
    }

    /// When the next request is due, since the start of the source; `None` in a closed loop.
    #[inline]
    pub fn due(&self) -> Option<Duration> {
        match self {
            Source::Timed(timed) => Some(timed.due()),
            Source::Stream(_) | Source::Tpcc(_) | Source::Trace(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::TpccStream;

    /// Each request writes to its thread's source. Found where two of them shared a cache line: the
    /// map that was measured with them took 1.5 times as long, in some rounds and not in others.
    #[test]
    fn the_sources_of_two_threads_share_no_cache_line() {
        assert_eq!(align_of::<Source<'_>>(), 128);
        assert_eq!(align_of::<Stream>(), 128);
        assert_eq!(align_of::<TpccStream>(), 128);
    }
}
