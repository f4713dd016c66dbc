//! Where a thread's requests come from: a workload's endless stream, or its share of a trace.

use std::iter::Cycle;
use std::sync::Arc;

use crate::trace::{Replay, Split, Trace};
use crate::workload::{KeySpace, Request, Stream, Workload, load_order};

/// What is run: made once for all maps and threads.
#[derive(Clone)]
pub enum Requests {
    /// A workload over a key space.
    Stream {
        /// What is asked.
        workload: Workload,
        /// Of which records.
        space: KeySpace,
    },
    /// A trace, over and over.
    Trace(Arc<Trace>),
}

/// One thread's requests.
pub enum Source<'a> {
    /// Endless.
    Stream(Box<Stream>),
    /// The thread's share of a trace, around and around.
    Trace(Cycle<Replay<'a>>),
}

impl Requests {
    /// The requests of one of `threads` threads; the same for the same seed.
    pub fn source(&self, seed: u64, thread: usize, threads: usize) -> Source<'_> {
        match self {
            Requests::Stream { workload, space } => {
                let stream = workload.stream(space, seed, thread as u64, threads as u64);
                Source::Stream(Box::new(stream))
            }
            Requests::Trace(trace) => {
                Source::Trace(trace.replay(thread, threads, Split::RoundRobin).cycle())
            }
        }
    }

    /// How many records are loaded before.
    pub fn records(&self) -> u64 {
        match self {
            Requests::Stream { space, .. } => space.records(),
            Requests::Trace(trace) => trace.keys().len() as u64,
        }
    }

    /// The keys that one of `threads` threads loads, in pseudo-random order.
    pub fn load(
        &self,
        seed: u64,
        thread: usize,
        threads: usize,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let order = load_order(self.records(), seed, thread as u64, threads as u64);
        order.map(move |id| match self {
            Requests::Stream { space, .. } => space.key(id),
            Requests::Trace(trace) => trace.keys()[id as usize],
        })
    }

    /// Puts the hot region of a workload that has one in its `epoch`th place.
    pub fn set_hot_epoch(&self, epoch: u64) {
        if let Requests::Stream { workload, .. } = self {
            workload.hot_epoch().set(epoch);
        }
    }

    /// What the report calls it.
    pub fn name(&self) -> &str {
        match self {
            Requests::Stream { workload, .. } => workload.name(),
            Requests::Trace(_) => "trace",
        }
    }
}

impl Source<'_> {
    /// The next request; there always is one.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "endless: an Option would be checked for nothing"
    )]
    pub fn next(&mut self) -> Request {
        match self {
            Source::Stream(stream) => stream.next(),
            Source::Trace(replay) => replay.next().expect("a share of a trace is not empty"),
        }
    }
}
