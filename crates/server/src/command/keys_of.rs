//! Where commands have their keys.

use smallvec::SmallVec;

use crate::resp::{Args, integer};

/// Where a command's keys are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keys {
    None,
    /// From this argument to that one, counted from the end if negative, in these steps.
    At(i8, i8, i8),
    /// As many as this argument says, behind it.
    Counted(usize),
    /// The first argument, and as many as the second one says, behind it.
    FirstAndCounted,
}

impl Keys {
    pub fn is_none(self) -> bool {
        self == Keys::None
    }

    /// Whether it is the first argument, and no other.
    pub fn is_one(self) -> bool {
        self == Keys::At(1, 1, 1)
    }

    pub fn positions(self) -> (i64, i64, i64) {
        match self {
            Keys::None | Keys::Counted(_) => (0, 0, 0),
            Keys::FirstAndCounted => (1, 1, 1),
            Keys::At(first, last, step) => (first.into(), last.into(), step.into()),
        }
    }

    /// Which argument is the first key, if that does not depend on the others.
    pub fn first(self) -> Option<usize> {
        match self {
            Keys::At(first, _, _) => Some(first as usize),
            Keys::None | Keys::Counted(_) | Keys::FirstAndCounted => None,
        }
    }

    /// The keys among these arguments.
    pub fn of(self, args: Args<'_>) -> SmallVec<[&[u8]; 4]> {
        match self {
            Keys::None => SmallVec::new(),
            Keys::Counted(at) => counted(args, at).collect(),
            Keys::FirstAndCounted => args.get(1).into_iter().chain(counted(args, 2)).collect(),
            Keys::At(first, last, step) => {
                let last = match last {
                    from_end if from_end < 0 => {
                        args.len().saturating_sub(from_end.unsigned_abs().into())
                    }
                    at => (at as usize).min(args.len() - 1),
                };
                let keys = (first as usize..=last).step_by(step as usize);
                keys.filter_map(|it| args.get(it)).collect()
            }
        }
    }
}

/// As many arguments as this one says, behind it.
fn counted(args: Args<'_>, at: usize) -> impl Iterator<Item = &[u8]> {
    let count = args.get(at).and_then(integer).unwrap_or(0);
    let rest = args.from(at + 1);
    // As in Redis: a number of keys that can't be is an error, not some keys.
    let count = usize::try_from(count).ok().filter(|it| *it <= rest.len());
    rest.iter().take(count.unwrap_or(0))
}
