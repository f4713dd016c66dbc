//! How a long run says where it is, without knowing who listens.
//!
//! The runner calls these a few times a second from one thread; a listener must not block it.

/// Hears of a run's progress.
pub trait Progress: Send + Sync {
    /// A new phase begins and the one before it is over. `total` is what [`Progress::advance`] counts
    /// up to, where that is known.
    fn phase(&self, name: &str, total: Option<u64>);

    /// `done` of the phase's total is behind us (not: was added), at `rate` requests a second now.
    /// `fast_share` is that of the last moments, 0 to 1, where lines are counted.
    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>);

    /// Nothing further comes.
    fn finish(&self);
}

/// Hears everything and says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _total: Option<u64>) {}
    fn advance(&self, _done: u64, _rate: f64, _fast_share: Option<f64>) {}
    fn finish(&self) {}
}
