//! How many files the process may have open: clients and segments of the store are some.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that are enough: clients, and a segment for each 64 MiB on the disk.
const ENOUGH: u64 = 1 << 20;

/// Raises the limit as far as that is allowed, and of use.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let mut most = limit.maximum.unwrap_or(u64::MAX).min(ENOUGH);
    // Some systems allow less than they say.
    while limit.current.is_some_and(|it| it < most) {
        let wanted = rustix::process::Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        match setrlimit(Resource::Nofile, wanted) {
            Ok(()) => limit.current = Some(most),
            Err(_) => most /= 2,
        }
    }
}

/// The most clients that may be connected, at least one. The other half of the files is the
/// store's, in which each segment is one.
pub(crate) fn for_clients() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 2).unwrap_or(usize::MAX).max(1)
}
