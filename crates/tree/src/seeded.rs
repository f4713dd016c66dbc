//! Bugs put in on purpose, so that a check can show that it would find them.
//!
//! Only with the feature `seeded-bugs`, which nothing enables but the command that runs such
//! checks; without it [`has`] is `false` before the program runs, and none of this is compiled in.
//! With it, no thread has a bug that did not ask for one by [`plant`], so other tests may run
//! beside.

/// One mistake in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// What holds records and moves is copied before it is locked for the move, so what is written
    /// in between is lost. Only for maps of words without blocks beside their leaves: a copy that
    /// is out of date may lead to blocks that were freed.
    CopiedBeforeLocked,
    /// A root of the B+tree is full, and there is memory for a new one but not for the other half:
    /// the memory is not given back.
    LeakedWhereMemoryEnds,
    /// The placement is told of a leaf of the B+tree that moved when its parent leads to the new
    /// place already, but the old one is not retired yet: if it panics, nobody retires that.
    ToldInBetween,
    /// Nodes and strings that are retired are freed at once, though others may be reading them.
    FreedAtOnce,
    /// A node of the B+tree that takes over what its right neighbour holds leaves the last entry
    /// behind.
    LastLeftBehind,
    /// A thread that changes, removes or moves a record leaves its copy as it is.
    CopyLeftBehind,
    /// The maker of a copy checks whether its leaf changed before it has locked the copy's
    /// bucket, not after that.
    CopiedUnlocked,
    /// The walk to a fast inner node reads the first entry of an empty leaf: a value of a record
    /// that was there is taken for a link.
    EmptyLeafEntered,
    /// The first or the last record is looked up, and then removed by its key: another one may have
    /// come in between.
    PoppedInTwoSteps,
}

#[cfg(feature = "seeded-bugs")]
impl Bug {
    const ALL: [Bug; 9] = [
        Bug::CopiedBeforeLocked,
        Bug::LeakedWhereMemoryEnds,
        Bug::ToldInBetween,
        Bug::FreedAtOnce,
        Bug::LastLeftBehind,
        Bug::CopyLeftBehind,
        Bug::CopiedUnlocked,
        Bug::EmptyLeafEntered,
        Bug::PoppedInTwoSteps,
    ];

    /// The bug that is called so above.
    pub fn named(name: &str) -> Option<Bug> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}

#[cfg(feature = "seeded-bugs")]
thread_local! {
    static HERE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// From now on this thread has this bug, and no other.
#[cfg(feature = "seeded-bugs")]
pub fn plant(bug: Bug) {
    HERE.set(Some(bug));
}

/// Whether this thread has a bug.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn has(bug: Bug) -> bool {
    HERE.get() == Some(bug)
}

/// Whether this thread has a bug: never.
#[cfg(not(feature = "seeded-bugs"))]
#[inline(always)]
pub(crate) fn has(_: Bug) -> bool {
    false
}
