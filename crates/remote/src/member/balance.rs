//! What a member does so that partitions follow the load: it measures, reports, and gives away.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::Member;
use crate::address::ComputeId;
use crate::balance::policy::{Move, View, decide};
use crate::balance::{Sample, Seen};
use crate::error::Result;
use crate::pool::PoolLock;
use crate::pool::directory::PARTITIONS;
use crate::pool::reports::{MOVES, Report};

/// That one task of a member gives keys away because of the load: only one may ask for the lock.
struct Giving<'a>(&'a AtomicBool);

impl Giving<'_> {
    fn begin(is_giving: &AtomicBool) -> Option<Giving<'_>> {
        (!is_giving.swap(true, SeqCst)).then_some(Giving(is_giving))
    }
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// Of fewer requests chance tells more than the load does: they are counted for longer than a
/// period.
const ENOUGH: u64 = 1_000;
/// But no longer than so many periods, so that old load is forgotten.
const MOST_PERIODS: u32 = 16;

/// Since when requests have been counted, while no keys changed hands.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// By the connection's clock.
    begin: Duration,
    /// The version of the table of partitions then.
    version: Option<u64>,
    /// What had been counted then.
    seen: Seen,
}

/// What a member was asked for since then.
struct Measured {
    version: u64,
    seconds: f64,
    requests: u64,
    samples: Vec<Sample>,
}

impl Member {
    /// Ends a period of `Options::balancing`: reports what this member was asked for, and gives
    /// keys away if it is asked for most and that would help. Without that option it does nothing.
    /// [`keep`](Self::keep) does this.
    ///
    /// # Errors
    /// As [`tend`](Self::tend), or [`hand_over`](Self::hand_over).
    pub async fn balance(&self) -> Result<()> {
        let hand_over = async |keys, to| self.hand_over(keys, to).await;
        self.balance_by(hand_over).await
    }

    /// The same, and `hand_over` gives the keys away: by [`hand_over`](Self::hand_over), and what
    /// else the caller has to do before and after. It does nothing while another call is under way.
    ///
    /// # Errors
    /// As [`balance`](Self::balance).
    pub async fn balance_by(
        &self,
        hand_over: impl AsyncFn(RangeInclusive<u64>, ComputeId) -> Result<()>,
    ) -> Result<()> {
        let Some(balancing) = self.tree.options().balancing else {
            return Ok(());
        };
        let Some(measured) = self.measure(balancing.period) else {
            return Ok(());
        };
        let rate = measured.requests as f64 / measured.seconds;
        let report = Report::new(measured.version, rate);
        Report::write(Some(report), self.connection(), self.number).await?;
        let Some(reports) = self.comparable(measured.version).await? else {
            return Ok(());
        };
        let rates = reports
            .into_iter()
            .map(|(compute, report)| (compute, f64::from(report.rate)));
        // In what the samples are counted in.
        let loads: Vec<_> = rates
            .map(|(it, rate)| (it, rate * measured.seconds))
            .collect();
        let view = View {
            me: self.compute(),
            loads: &loads,
            partitions: &self.partitions(),
            samples: &measured.samples,
        };
        match decide(&view, &balancing) {
            Some(wanted) => self.give(wanted, measured.version, hand_over).await,
            None => Ok(()),
        }
    }

    /// How often this member gave keys away because of the load.
    pub fn moves(&self) -> u64 {
        self.moves.load(Relaxed)
    }

    /// Begins a period: this member knows the table of this version from now on.
    pub(super) fn begin_period(&self, version: u64) {
        let now = self.connection().now();
        let mut meter = self.meter();
        if meter.version != Some(version) {
            self.tree.demand().since(&mut meter.seen);
            (meter.begin, meter.version) = (now, Some(version));
        }
    }

    /// What has been counted, unless keys changed hands less than half a period ago. Counts anew
    /// from now on if that was [`ENOUGH`], or took too long.
    fn measure(&self, period: Duration) -> Option<Measured> {
        let now = self.connection().now();
        let mut meter = self.meter();
        let version = meter.version?;
        let time = now.saturating_sub(meter.begin);
        if time < period / 2 || time.is_zero() {
            return None;
        }
        let mut seen = meter.seen.clone();
        let (requests, samples) = self.tree.demand().since(&mut seen);
        if requests >= ENOUGH || time >= period.saturating_mul(MOST_PERIODS) {
            (meter.begin, meter.seen) = (now, seen);
        }
        Some(Measured {
            version,
            seconds: time.as_secs_f64(),
            requests,
            samples,
        })
    }

    /// The reports of all members that report. `None`: one of them has not measured since it knows
    /// this version of the table.
    async fn comparable(&self, version: u64) -> Result<Option<Vec<(ComputeId, Report)>>> {
        let reports = Report::read_all(self.connection()).await?;
        let places = self.registry.places(self.connection()).await?.into_iter();
        let live = places.filter(|(_, place)| !place.is_dead());
        let reported = live.filter_map(|(at, place)| Some((place.compute, reports[at]?)));
        let reported: Vec<_> = reported.collect();
        let are_same = reported.iter().all(|(_, report)| report.is_of(version));
        Ok(are_same.then_some(reported))
    }

    /// Gives keys away, unless another member does, or keys have changed hands since.
    async fn give(
        &self,
        wanted: Move,
        version: u64,
        hand_over: impl AsyncFn(RangeInclusive<u64>, ComputeId) -> Result<()>,
    ) -> Result<()> {
        let connection = self.connection();
        let Some(_giving) = Giving::begin(&self.is_giving) else {
            return Ok(());
        };
        let Some(lock) = PoolLock::try_take(connection, MOVES).await? else {
            return Ok(());
        };
        let result = async {
            let turn = self.tree.flights().begin(PARTITIONS).await;
            let now = self.registry.partitions(connection).await?.version();
            drop(turn);
            if now == version {
                hand_over(wanted.keys, wanted.to).await?;
                self.moves.fetch_add(1, Relaxed);
            }
            Ok(())
        };
        let result = result.await;
        lock.release(connection).await?;
        result
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
