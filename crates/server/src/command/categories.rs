//! Categories of commands, by Redis' names: rules of users allow them as a whole.

use super::{Command, Flags};
use crate::resp::Args;

/// All names, in the order in which Redis shows them. Those of types that are not here are known,
/// so that rules that name them are read.
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Some of them: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Categories(u32);

impl Categories {
    /// The one of this name, in lower case; 0 where there is none.
    const fn bit(name: &str) -> u32 {
        let mut at = 0;
        while at < NAMES.len() {
            if equal(NAMES[at].as_bytes(), name.as_bytes()) {
                return 1 << at;
            }
            at += 1;
        }
        0
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Categories> {
        let bits = Self::bit(name);
        (bits != 0).then_some(Categories(bits))
    }

    /// Whether one is in both.
    pub fn meets(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = NAMES.iter().enumerate();
        all.filter(move |it| self.0 & 1 << it.0 != 0)
            .map(|it| *it.1)
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

const ADMIN: u32 = Categories::bit("admin") | Categories::bit("dangerous");
const CONNECTION: u32 = Categories::bit("connection");
const SLOW: u32 = Categories::bit("slow");

/// Those of a command.
pub(crate) fn of(command: &Command) -> Categories {
    let name = command.name;
    if is_container(name) && name != "command" {
        return Categories(SLOW);
    }
    let mut bits = match command.group {
        "connection" => CONNECTION,
        "generic" => Categories::bit("keyspace"),
        "transactions" => Categories::bit("transaction"),
        "sorted-set" => Categories::bit("sortedset"),
        "cluster" => CONNECTION,
        group => Categories::bit(group),
    };
    if command.flags.has(Flags::READ) {
        bits |= Categories::bit("read");
    }
    if command.flags.has(Flags::WRITE) {
        bits |= Categories::bit("write");
    }
    bits |= match name {
        "command" => CONNECTION,
        "dbsize" => Categories::bit("keyspace"),
        "flushall" | "flushdb" => Categories::bit("keyspace") | Categories::bit("dangerous"),
        "info" | "keys" => Categories::bit("dangerous"),
        "backup" | "bgsave" | "lastsave" | "save" | "shutdown" => ADMIN,
        "blmove" | "blmpop" | "blpop" | "brpop" | "brpoplpush" => Categories::bit("blocking"),
        _ => 0,
    };
    bits |= if is_fast(name) {
        Categories::bit("fast")
    } else {
        SLOW
    };
    Categories(bits)
}

/// Whether Redis calls it fast: constant time, or logarithmic.
#[rustfmt::skip]
fn is_fast(name: &str) -> bool {
    matches!(
        name,
        "append" | "asking" | "auth" | "dbsize" | "decr" | "decrby" | "discard" | "echo" | "exists"
            | "expire" | "expireat" | "expiretime" | "get" | "getdel" | "getex" | "getset" | "hdel"
            | "hello" | "hexists" | "hget" | "hincrby" | "hincrbyfloat" | "hlen" | "hmget"
            | "hmset" | "hset" | "hsetnx" | "hstrlen" | "incr" | "incrby" | "incrbyfloat"
            | "lastsave" | "llen" | "lpop" | "lpush" | "lpushx" | "mget" | "multi" | "persist"
            | "pexpire" | "pexpireat" | "pexpiretime" | "ping" | "pttl" | "publish" | "quit"
            | "readonly" | "readwrite" | "renamenx" | "reset" | "rpop" | "rpush" | "rpushx"
            | "sadd" | "scard" | "select" | "setnx" | "sismember" | "smismember" | "smove" | "spop"
            | "spublish" | "srem" | "strlen" | "time" | "touch" | "ttl" | "type" | "unlink"
            | "unwatch" | "watch" | "zadd" | "zcard" | "zcount" | "zincrby" | "zlexcount"
            | "zmscore" | "zpopmax" | "zpopmin" | "zrank" | "zrem" | "zrevrank" | "zscore"
    )
}

/// A command's subcommand that rules can name.
pub(crate) struct Subcommand {
    pub command: &'static str,
    pub name: &'static str,
    pub categories: Categories,
}

/// Those of a command with some categories.
macro_rules! subcommands {
    ($($command:literal $bits:expr => [$($name:literal)*])*) => {
        &[$($(Subcommand {
            command: $command,
            name: $name,
            categories: Categories(SLOW | $bits),
        },)*)*]
    };
}

/// All subcommands: at most 64.
pub(crate) static SUBCOMMANDS: &[Subcommand] = subcommands! {
    "acl" 0 => ["cat" "genpass" "help" "whoami"]
    "acl" ADMIN => [
        "deluser" "dryrun" "getuser" "list" "load" "log" "save" "setuser" "users"
    ]
    "client" CONNECTION => ["getname" "help" "id" "info" "reply" "setinfo" "setname"]
    "client" CONNECTION | ADMIN => ["kill" "list" "no-evict" "pause" "unblock" "unpause"]
    "cluster" 0 => [
        "countkeysinslot" "getkeysinslot" "help" "info" "keyslot" "links" "myid" "nodes" "shards"
        "slots"
    ]
    "cluster" ADMIN => ["migrateslots" "replicas"]
    "command" CONNECTION => ["count" "docs" "getkeys" "help" "info" "list"]
    "config" 0 => ["help"]
    "config" ADMIN => ["get" "resetstat" "rewrite" "set"]
    "pubsub" 0 => ["help"]
    "pubsub" Categories::bit("pubsub") => [
        "channels" "numpat" "numsub" "shardchannels" "shardnumsub"
    ]
    "slowlog" 0 => ["help"]
    "slowlog" ADMIN => ["get" "len" "reset"]
};

/// Whether a command has subcommands.
pub(crate) fn is_container(name: &str) -> bool {
    SUBCOMMANDS.iter().any(|it| it.command == name)
}

/// The place in [`SUBCOMMANDS`] of a command's subcommand.
pub(crate) fn subcommand(command: &str, name: &[u8]) -> Option<usize> {
    let is_it =
        |it: &Subcommand| it.command == command && it.name.as_bytes().eq_ignore_ascii_case(name);
    SUBCOMMANDS.iter().position(is_it)
}

/// The name of a command's subcommand, if it has one that is known.
pub(crate) fn subcommand_of(command: &Command, args: Args<'_>) -> Option<&'static str> {
    // Commands with keys have none, and are not searched for.
    let given = args.get(1).filter(|_| command.keys.is_none())?;
    Some(SUBCOMMANDS[subcommand(command.name, given)?].name)
}
