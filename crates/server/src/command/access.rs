//! What a command does to the values of its keys, as rules of users tell it apart: who only counts
//! elements reads none of them, and who overwrites a value does not read it.

use super::{Command, Flags};
use crate::resp::Args;

/// What is done to a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub reads: bool,
    pub writes: bool,
}

const NONE: Access = Access {
    reads: false,
    writes: false,
};
const READ: Access = Access {
    reads: true,
    writes: false,
};
const WRITE: Access = Access {
    reads: false,
    writes: true,
};
const BOTH: Access = Access {
    reads: true,
    writes: true,
};

/// What a command does to its key of this number, from 0.
pub(crate) fn of(command: &Command, args: Args<'_>, number: usize) -> Access {
    match (command.name, number) {
        ("copy", 0) => READ,
        ("copy", _) => WRITE,
        ("rename" | "renamenx" | "smove" | "lmove" | "rpoplpush" | "blmove" | "brpoplpush", 0) => {
            BOTH
        }
        (
            "sdiffstore" | "sinterstore" | "sunionstore" | "zdiffstore" | "zinterstore"
            | "zunionstore" | "zrangestore",
            1..,
        ) => READ,
        ("set", _)
            if args
                .from(3)
                .iter()
                .any(|it| it.eq_ignore_ascii_case(b"get")) =>
        {
            BOTH
        }
        (
            "getdel" | "getex" | "getset" | "incr" | "decr" | "incrby" | "decrby" | "incrbyfloat"
            | "hincrby" | "hincrbyfloat" | "spop" | "zpopmin" | "zpopmax" | "zincrby" | "lpop"
            | "rpop" | "lmpop" | "blpop" | "brpop" | "blmpop",
            _,
        ) => BOTH,
        (
            "exists" | "touch" | "type" | "strlen" | "hlen" | "hexists" | "hstrlen" | "scard"
            | "sismember" | "llen" | "zcard",
            _,
        ) => NONE,
        _ if command.flags.has(Flags::WRITE) => WRITE,
        _ if command.flags.has(Flags::READ) => READ,
        _ => NONE,
    }
}
