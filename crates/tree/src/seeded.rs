//! Bugs put in on purpose, so that a check can show that it would find them.
//!
//! Only with the feature `seeded-bugs`, which nothing enables but the command that runs such
//! checks; without it [`has`] is `false` before the program runs, and none of this is compiled in.
//! With it, no thread has a bug that did not ask for one by [`plant`], so other tests may run
//! beside.

/// One mistake in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A move copies a leaf before it locks it, so writes in between are lost. Only for maps of
    /// words without blocks beside their leaves: an outdated copy may refer to freed blocks.
    CopiedBeforeLocked,
    /// The B+tree splits its root, and has memory for a new root but not for the other half: it
    /// leaks the former.
    LeakedWhereMemoryEnds,
    /// The B+tree reports a moved leaf to the placement after it has swung the parent's pointer and
    /// before it retires the old copy: if the placement panics, the old copy leaks.
    ToldInBetween,
    /// Retired nodes and strings are freed at once, while readers may use them.
    FreedAtOnce,
    /// A node of the B+tree that takes over what its right neighbour holds leaves the last entry
    /// behind.
    LastLeftBehind,
    /// A thread that changes, removes or moves a record leaves its copy as it is.
    CopyLeftBehind,
    /// The maker of a copy checks whether its leaf changed before it has locked the copy's
    /// bucket, not after that.
    CopiedUnlocked,
    /// A page of copies goes before its dirty ones are written back.
    DroppedDirty,
    /// A scan takes a leaf's values for the newest though records have dirty copies.
    StaleLeafScanned,
    /// The walk to a fast inner node reads the first entry of an empty leaf: a value of a record
    /// that was there is taken for a link.
    EmptyLeafEntered,
    /// The first or the last record is looked up, and then removed by its key: another one may have
    /// come in between.
    PoppedInTwoSteps,
    /// A record is removed from a dense leaf of the radix tree while the link to it tells that it
    /// has all its records: lookups take the value that it had for the record's.
    StillToldFull,
}

#[cfg(feature = "seeded-bugs")]
impl Bug {
    const ALL: [Bug; 12] = [
        Bug::CopiedBeforeLocked,
        Bug::LeakedWhereMemoryEnds,
        Bug::ToldInBetween,
        Bug::FreedAtOnce,
        Bug::LastLeftBehind,
        Bug::CopyLeftBehind,
        Bug::CopiedUnlocked,
        Bug::DroppedDirty,
        Bug::StaleLeafScanned,
        Bug::EmptyLeafEntered,
        Bug::PoppedInTwoSteps,
        Bug::StillToldFull,
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
