//! Names that no record's key has room for, and what a client is told of them.

use timberline_store::{Error as StoreError, MAX_KEY};

use super::{Call, Failure};
use crate::keyspace::Error;

/// Bytes in front of a key, in its record's key.
const OF_KEY: usize = 1;
/// In front of a key in a timer's, and of a field or member.
const OF_ELEMENT: usize = 9;
/// In front of a member in the order of scores.
const OF_SCORED: usize = 17;

/// What to say if a command failed because of a name's length: how long the one is that the client
/// sent, and not the record's key. That is no failure of the server's.
pub(super) fn refusal(failure: &Failure, call: &Call) -> Option<String> {
    let Failure::Store(Error::Store(StoreError::KeyTooLong(len, _))) = *failure else {
        return None;
    };
    let is_key = |around: usize| call.keys().iter().any(|it| it.len() + around == len);
    let is_sent = |around: &usize| call.args.iter().any(|it| it.len() + around == len);
    let of_element = [OF_KEY, OF_ELEMENT, OF_SCORED].into_iter().find(is_sent);
    // An element of a node's has no id in front.
    let of_scored = match call.keyspace().node() {
        Some(_) => OF_ELEMENT,
        None => OF_SCORED,
    };
    let of_element = of_element.unwrap_or(of_scored);
    let (what, around, most_around) = match call.command.group {
        _ if is_key(OF_KEY) => ("key", OF_KEY, OF_KEY),
        _ if is_key(OF_ELEMENT) => ("key that expires", OF_ELEMENT, OF_ELEMENT),
        "hash" => ("field", of_element, of_element),
        "set" => ("member", of_element, of_element),
        // Either of its records may be the one that was refused.
        "sorted-set" => ("member", of_element, of_element.max(of_scored)),
        _ => return None,
    };
    let (bytes, most) = (len.saturating_sub(around), MAX_KEY - most_around);
    Some(format!(
        "ERR a {what} of {bytes} bytes: the longest have {most}"
    ))
}
