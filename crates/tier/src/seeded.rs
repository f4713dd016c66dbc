//! Bugs put in on purpose, so that a check can show that it would find them.
//!
//! Only with the feature `seeded-bugs`, which nothing enables but the command that runs such
//! checks; without it [`has`] is `false` before the program runs. With it, a process has the bug
//! that the environment variable `TIMBERLINE_BUG` names.

/// One mistake in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Arenas are not bound to their NUMA nodes, so their pages come from wherever the kernel
    /// likes.
    ForgetsToBind,
}

/// Whether this process has a bug.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn has(bug: Bug) -> bool {
    let name = match bug {
        Bug::ForgetsToBind => "forgets-to-bind",
    };
    std::env::var("TIMBERLINE_BUG").is_ok_and(|asked| asked == name)
}

/// Whether this process has a bug: never.
#[cfg(not(feature = "seeded-bugs"))]
#[inline(always)]
pub(crate) fn has(_: Bug) -> bool {
    false
}
