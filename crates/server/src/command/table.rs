//! All commands.

use super::flags::Flags;
use super::keys_of::Keys;
use super::row::{Command, Handler, Quick};
use super::{
    acl, cluster, combinations, connection, hashes, keys, lists, pubsub, scan, server, sets,
    sorted, strings, transaction, waiting_lists,
};

const ONE: Keys = Keys::At(1, 1, 1);
const TWO: Keys = Keys::At(1, 2, 1);
const ALL: Keys = Keys::At(1, -1, 1);
const PAIRS: Keys = Keys::At(1, -1, 2);
const COUNTED: Keys = Keys::Counted(1);
const STORED: Keys = Keys::FirstAndCounted;
const BUT_LAST: Keys = Keys::At(1, -2, 1);
const NO: Keys = Keys::None;

const R: Flags = Flags::READ;
const W: Flags = Flags::WRITE;
const G: Flags = Flags::WRITE.and(Flags::GROWS);
const O: Flags = G.and(Flags::OVERWRITES);
const N: Flags = Flags::NONE;
/// It takes its keys' locks itself, as it may wait.
const B: Flags = Flags::WRITE.and(Flags::UNLOCKED);

/// Rows of the table: name, arity, flags, keys, handler, summary.
macro_rules! rows {
    ($($group:literal => [$(
        $name:literal $arity:literal $flags:expr, $keys:expr, $handler:expr, $summary:literal;
    )*])*) => {
        &[$($(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            summary: $summary,
            handler: $handler,
        },)*)*]
    };
}

/// A handler that is a future.
macro_rules! later {
    ($handler:path) => {
        Handler::Later(|call| Box::pin($handler(call)))
    };
}

/// A handler that is done at once.
macro_rules! now {
    ($handler:path) => {
        Handler::Now($handler)
    };
}

/// A handler that is done at once if it can be, of this kind.
macro_rules! quick {
    ($kind:ident, $quick:path, $handler:path) => {
        Handler::Quick(Quick::$kind($quick), |call| Box::pin($handler(call)))
    };
}

/// All commands, by family.
pub(crate) static TABLE: &[Command] = rows! {
    "connection" => [
    "auth" -2 Flags::NO_AUTH, NO, now!(connection::auth), "Authenticates the connection";
    "client" -2 N, NO, now!(connection::client), "Shows and changes connections";
    "echo" 2 N, NO, now!(connection::echo), "Returns its argument";
    "hello" -1 Flags::NO_AUTH, NO, now!(connection::hello), "Chooses the protocol";
    "ping" -1 Flags::SUBSCRIBED, NO, now!(connection::ping), "Answers";
    "quit" -1 Flags::NO_AUTH.and(Flags::SUBSCRIBED).and(Flags::NOT_QUEUED), NO,
        now!(connection::quit), "Closes the connection";
    "reset" 1 Flags::NO_AUTH.and(Flags::SUBSCRIBED).and(Flags::NOT_QUEUED), NO,
        now!(connection::reset), "Resets the connection";
    "select" 2 N, NO, now!(connection::select), "Chooses the database, of which there is one";
    ]
    "string" => [
    "append" 3 G, ONE, later!(strings::append), "Appends to a string";
    "decr" 2 G, ONE, quick!(Sets, strings::decr_record, strings::decr),
        "Subtracts one from an integer";
    "decrby" 3 G, ONE, quick!(Sets, strings::decrby_record, strings::decrby),
        "Subtracts from an integer";
    "get" 2 R, ONE, quick!(Any, strings::get_now, strings::get), "Returns a string";
    "getdel" 2 W, ONE, later!(strings::getdel), "Returns a string and removes it";
    "getex" -2 W, ONE, later!(strings::getex), "Returns a string and sets its expiry";
    "getrange" 4 R, ONE, later!(strings::getrange), "Returns a part of a string";
    "getset" 3 G, ONE, later!(strings::getset), "Sets a string and returns the old one";
    "incr" 2 G, ONE, quick!(Sets, strings::incr_record, strings::incr), "Adds one to an integer";
    "incrby" 3 G, ONE, quick!(Sets, strings::incrby_record, strings::incrby), "Adds to an integer";
    "incrbyfloat" 3 G, ONE, later!(strings::incrbyfloat), "Adds to a floating-point number";
    "mget" -2 R, ALL, later!(strings::mget), "Returns strings";
    "mset" -3 O, PAIRS, quick!(Any, strings::mset_now, strings::mset), "Sets strings at once";
    "msetnx" -3 G, PAIRS, later!(strings::msetnx), "Sets strings if none of them exists";
    "psetex" 4 O, ONE, later!(strings::psetex), "Sets a string that expires, in milliseconds";
    "set" -3 O, ONE, quick!(Sets, strings::set_record, strings::set), "Sets a string";
    "setex" 4 O, ONE, later!(strings::setex), "Sets a string that expires, in seconds";
    "setnx" 3 G, ONE, later!(strings::setnx), "Sets a string if it does not exist";
    "setrange" 4 G, ONE, later!(strings::setrange), "Overwrites a part of a string";
    "strlen" 2 R, ONE, later!(strings::strlen), "Returns the length of a string";
    "substr" 4 R, ONE, later!(strings::getrange), "Returns a part of a string";
    ]
    "hash" => [
    "hdel" -3 W, ONE, later!(hashes::hdel), "Removes fields";
    "hexists" 3 R, ONE, later!(hashes::hexists), "Says whether a field exists";
    "hget" 3 R, ONE, later!(hashes::hget), "Returns a field";
    "hgetall" 2 R, ONE, later!(hashes::hgetall), "Returns all fields with their values";
    "hincrby" 4 G, ONE, later!(hashes::hincrby), "Adds to an integer";
    "hincrbyfloat" 4 G, ONE, later!(hashes::hincrbyfloat), "Adds to a floating-point number";
    "hkeys" 2 R, ONE, later!(hashes::hkeys), "Returns all fields";
    "hlen" 2 R, ONE, later!(hashes::hlen), "Counts fields";
    "hmget" -3 R, ONE, later!(hashes::hmget), "Returns fields";
    "hmset" -4 G, ONE, later!(hashes::hmset), "Sets fields";
    "hrandfield" -2 R, ONE, later!(hashes::hrandfield), "Returns fields at random";
    "hscan" -3 R, ONE, later!(hashes::hscan), "Lists fields in steps";
    "hset" -4 G, ONE, later!(hashes::hset), "Sets fields";
    "hsetnx" 4 G, ONE, later!(hashes::hsetnx), "Sets a field if it does not exist";
    "hstrlen" 3 R, ONE, later!(hashes::hstrlen), "Returns the length of a field";
    "hvals" 2 R, ONE, later!(hashes::hvals), "Returns all values";
    ]
    "set" => [
    "sadd" -3 G, ONE, later!(sets::sadd), "Adds members";
    "scard" 2 R, ONE, later!(sets::scard), "Counts members";
    "sdiff" -2 R, ALL, later!(sets::sdiff), "Returns the difference of sets";
    "sdiffstore" -3 G, ALL, later!(sets::sdiffstore), "Stores the difference of sets";
    "sinter" -2 R, ALL, later!(sets::sinter), "Returns the intersection of sets";
    "sintercard" -3 R, COUNTED, later!(combinations::intercard), "Counts the intersection of sets";
    "sinterstore" -3 G, ALL, later!(sets::sinterstore), "Stores the intersection of sets";
    "sismember" 3 R, ONE, later!(sets::sismember), "Says whether a member exists";
    "smembers" 2 R, ONE, later!(sets::smembers), "Returns all members";
    "smismember" -3 R, ONE, later!(sets::smismember), "Says which members exist";
    "smove" 4 W, TWO, later!(sets::smove), "Moves a member to another set";
    "spop" -2 W, ONE, later!(sets::spop), "Removes members at random and returns them";
    "srandmember" -2 R, ONE, later!(sets::srandmember), "Returns members at random";
    "srem" -3 W, ONE, later!(sets::srem), "Removes members";
    "sscan" -3 R, ONE, later!(sets::sscan), "Lists members in steps";
    "sunion" -2 R, ALL, later!(sets::sunion), "Returns the union of sets";
    "sunionstore" -3 G, ALL, later!(sets::sunionstore), "Stores the union of sets";
    ]
    "list" => [
    "blmove" 6 B.and(G), TWO, later!(waiting_lists::blmove),
        "Moves an element to another list, and waits for one";
    "blmpop" -5 B, Keys::Counted(2), later!(waiting_lists::blmpop),
        "Removes elements of the first list that has any, and waits for one";
    "blpop" -3 B, BUT_LAST, later!(waiting_lists::bpop), "Removes the first element, or waits for one";
    "brpop" -3 B, BUT_LAST, later!(waiting_lists::bpop), "Removes the last element, or waits for one";
    "brpoplpush" 4 B.and(G), TWO, later!(waiting_lists::brpoplpush),
        "Moves the last element to another list, and waits for one";
    "lindex" 3 R, ONE, later!(lists::lindex), "Returns an element by its index";
    "linsert" 5 G, ONE, later!(lists::linsert), "Adds an element beside another one";
    "llen" 2 R, ONE, later!(lists::llen), "Counts elements";
    "lmove" 5 G, TWO, later!(lists::lmove), "Moves an element to another list";
    "lmpop" -4 W, COUNTED, later!(lists::lmpop), "Removes elements of the first list that has any";
    "lpop" -2 W, ONE, later!(lists::pop), "Removes the first elements";
    "lpos" -3 R, ONE, later!(lists::lpos), "Returns the indexes of an element";
    "lpush" -3 G, ONE, later!(lists::push), "Adds elements in front";
    "lpushx" -3 G, ONE, later!(lists::push), "Adds elements in front of a list that exists";
    "lrange" 4 R, ONE, later!(lists::lrange), "Returns a range of elements";
    "lrem" 4 W, ONE, later!(lists::lrem), "Removes elements by their value";
    "lset" 4 G, ONE, later!(lists::lset), "Replaces an element";
    "ltrim" 4 W, ONE, later!(lists::ltrim), "Removes all elements outside a range";
    "rpop" -2 W, ONE, later!(lists::pop), "Removes the last elements";
    "rpoplpush" 3 G, TWO, later!(lists::rpoplpush), "Moves the last element to another list";
    "rpush" -3 G, ONE, later!(lists::push), "Adds elements behind";
    "rpushx" -3 G, ONE, later!(lists::push), "Adds elements behind a list that exists";
    ]
    "sorted-set" => [
    "zadd" -4 G, ONE, quick!(Score, sorted::zadd_now, sorted::zadd), "Sets scores of members";
    "zcard" 2 R, ONE, later!(sorted::zcard), "Counts members";
    "zdiff" -3 R, COUNTED, later!(combinations::zdiff), "Returns the difference of sorted sets";
    "zdiffstore" -4 G, STORED, later!(combinations::zdiffstore), "Stores the difference";
    "zinter" -3 R, COUNTED, later!(combinations::zinter), "Returns the intersection of sorted sets";
    "zintercard" -3 R, COUNTED, later!(combinations::intercard), "Counts the intersection";
    "zinterstore" -4 G, STORED, later!(combinations::zinterstore), "Stores the intersection";
    "zunion" -3 R, COUNTED, later!(combinations::zunion), "Returns the union of sorted sets";
    "zunionstore" -4 G, STORED, later!(combinations::zunionstore), "Stores the union";
    "zcount" 4 R, ONE, later!(sorted::zcount), "Counts members in a range of scores";
    "zincrby" 4 G, ONE, later!(sorted::zincrby), "Adds to a score";
    "zlexcount" 4 R, ONE, later!(sorted::zlexcount), "Counts members in a range of their bytes";
    "zmscore" -3 R, ONE, later!(sorted::zmscore), "Returns scores";
    "zpopmax" -2 W, ONE, later!(sorted::zpop), "Removes members with the highest scores";
    "zpopmin" -2 W, ONE, later!(sorted::zpop), "Removes members with the lowest scores";
    "zrandmember" -2 R, ONE, later!(sorted::zrandmember), "Returns members at random";
    "zrange" -4 R, ONE, later!(sorted::zrange), "Returns a range of members";
    "zrangebylex" -4 R, ONE, later!(sorted::zrangebylex),
        "Returns members in a range of their bytes";
    "zrangebyscore" -4 R, ONE, later!(sorted::zrangebyscore),
        "Returns members in a range of scores";
    "zrangestore" -5 G, TWO, later!(sorted::zrangestore), "Stores a range of members";
    "zrank" 3 R, ONE, later!(sorted::zrank), "Returns the rank of a member";
    "zrem" -3 W, ONE, later!(sorted::zrem), "Removes members";
    "zremrangebylex" 4 W, ONE, later!(sorted::zremrange),
        "Removes members in a range of their bytes";
    "zremrangebyrank" 4 W, ONE, later!(sorted::zremrange), "Removes members in a range of ranks";
    "zremrangebyscore" 4 W, ONE, later!(sorted::zremrange), "Removes members in a range of scores";
    "zrevrange" -4 R, ONE, later!(sorted::zrevrange), "Returns a range of ranks, highest first";
    "zrevrangebylex" -4 R, ONE, later!(sorted::zrevrangebylex),
        "Returns a range of bytes, last first";
    "zrevrangebyscore" -4 R, ONE, later!(sorted::zrevrangebyscore),
        "Returns a range of scores, highest first";
    "zrevrank" 3 R, ONE, later!(sorted::zrank), "Returns the rank of a member, highest first";
    "zscan" -3 R, ONE, later!(sorted::zscan), "Lists members in steps";
    "zscore" 3 R, ONE, later!(sorted::zscore), "Returns a score";
    ]
    "generic" => [
    "copy" -3 G, TWO, later!(keys::copy), "Copies a key";
    "del" -2 W, ALL, later!(keys::del), "Removes keys";
    "exists" -2 R, ALL, later!(keys::exists), "Counts keys that exist";
    "expire" -3 W, ONE, later!(keys::expire), "Sets when a key expires, in seconds from now";
    "expireat" -3 W, ONE, later!(keys::expireat),
        "Sets when a key expires, in seconds of Unix time";
    "expiretime" 2 R, ONE, later!(keys::expiretime), "Returns when a key expires, in seconds";
    "keys" 2 R, NO, later!(scan::keys), "Returns all keys that match a pattern";
    "persist" 2 W, ONE, later!(keys::persist), "Has a key not expire";
    "pexpire" -3 W, ONE, later!(keys::pexpire), "Sets when a key expires, in milliseconds from now";
    "pexpireat" -3 W, ONE, later!(keys::pexpireat),
        "Sets when a key expires, in milliseconds of Unix time";
    "pexpiretime" 2 R, ONE, later!(keys::pexpiretime),
        "Returns when a key expires, in milliseconds";
    "pttl" 2 R, ONE, later!(keys::pttl), "Returns the time until a key expires, in milliseconds";
    "randomkey" 1 R, NO, later!(scan::randomkey), "Returns a key at random";
    "rename" 3 W, TWO, later!(keys::rename), "Gives a key another name";
    "renamenx" 3 W, TWO, later!(keys::renamenx), "Gives a key another name that is free";
    "scan" -2 R, NO, later!(scan::scan), "Lists keys in steps";
    "touch" -2 R, ALL, later!(keys::exists), "Counts keys that exist";
    "ttl" 2 R, ONE, later!(keys::ttl), "Returns the time until a key expires, in seconds";
    "type" 2 R, ONE, later!(keys::type_of), "Returns the type of a key";
    "unlink" -2 W, ALL, later!(keys::del), "Removes keys";
    ]
    "transactions" => [
    "discard" 1 Flags::NOT_QUEUED, NO, now!(transaction::discard), "Drops a transaction";
    "exec" 1 Flags::NOT_QUEUED, NO, later!(transaction::exec), "Executes a transaction";
    "multi" 1 Flags::NOT_QUEUED, NO, now!(transaction::multi), "Begins a transaction";
    "unwatch" 1 N, NO, now!(transaction::unwatch_all), "Ends all watches";
    "watch" -2 Flags::NOT_QUEUED, ALL, later!(transaction::watch),
        "Has EXEC do nothing if a key changes";
    ]
    "pubsub" => [
    "psubscribe" -2 Flags::SUBSCRIBED, NO, now!(pubsub::psubscribe), "Subscribes to patterns";
    "publish" 3 N, NO, now!(pubsub::publish), "Sends a message to subscribers";
    "pubsub" -2 N, NO, now!(pubsub::pubsub), "Shows channels and subscribers";
    "punsubscribe" -1 Flags::SUBSCRIBED, NO, now!(pubsub::punsubscribe), "Leaves patterns";
    "spublish" 3 Flags::UNLOCKED, ONE, now!(pubsub::spublish),
        "Sends a message to subscribers of a channel that has a slot";
    "ssubscribe" -2 Flags::SUBSCRIBED.and(Flags::UNLOCKED), ALL, now!(pubsub::ssubscribe),
        "Subscribes to channels that have a slot";
    "subscribe" -2 Flags::SUBSCRIBED, NO, now!(pubsub::subscribe), "Subscribes to channels";
    "sunsubscribe" -1 Flags::SUBSCRIBED, NO, now!(pubsub::sunsubscribe),
        "Leaves channels that have a slot";
    "unsubscribe" -1 Flags::SUBSCRIBED, NO, now!(pubsub::unsubscribe), "Leaves channels";
    ]
    "cluster" => [
    "asking" 1 N, NO, now!(cluster::accept), "Does nothing: slots move at once";
    "cluster" -2 N, NO, later!(cluster::cluster), "Describes the cluster, and moves slots";
    "readonly" 1 N, NO, now!(cluster::accept), "Does nothing: there are no replicas";
    "readwrite" 1 N, NO, now!(cluster::accept), "Does nothing: there are no replicas";
    ]
    "server" => [
    "acl" -2 N, NO, now!(acl::acl), "Shows and changes users and their rights";
    "backup" 2 Flags::NOT_IN_MULTI, NO, later!(server::backup),
        "Copies the store into the folder of backups";
    "bgsave" -1 N, NO, later!(server::save), "Waits until all writes are on the disk";
    "command" -1 N, NO, now!(server::command), "Describes commands";
    "config" -2 N, NO, now!(server::config), "Shows and changes settings";
    "dbsize" 1 R, NO, now!(keys::dbsize), "Counts keys";
    "flushall" -1 W.and(Flags::ALL_KEYS), NO, later!(keys::flush), "Removes all keys";
    "flushdb" -1 W.and(Flags::ALL_KEYS), NO, later!(keys::flush), "Removes all keys";
    "info" -1 N, NO, now!(server::info), "Describes the server";
    "lastsave" 1 N, NO, now!(server::lastsave), "Returns the time of the last SAVE";
    "save" 1 Flags::NOT_IN_MULTI, NO, later!(server::save),
        "Waits until all writes are on the disk";
    "shutdown" -1 Flags::NOT_IN_MULTI, NO, now!(server::shutdown), "Stops the server";
    "slowlog" -2 N, NO, now!(server::slowlog), "Shows slow commands";
    "time" 1 N, NO, now!(server::time), "Returns the time";
    ]
};

/// Slots of the hash table of names: a power of two, so many that few names share one.
const SLOTS: usize = 1024;

static INDEX: std::sync::LazyLock<Box<[u8; SLOTS]>> = std::sync::LazyLock::new(|| {
    const { assert!(TABLE.len() < 255) };
    let mut slots = Box::new([u8::MAX; SLOTS]);
    for (at, command) in TABLE.iter().enumerate() {
        let mut slot = slot_of(command.name.as_bytes());
        while slots[slot] != u8::MAX {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = at as u8;
    }
    slots
});

fn slot_of(name: &[u8]) -> usize {
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193);
    let hash = name.iter().fold(0x811c_9dc5, mix);
    (hash ^ hash >> 15) as usize % SLOTS
}

/// The command of this name.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut slot = slot_of(name);
    loop {
        let command = TABLE.get(usize::from(INDEX[slot]))?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in TABLE {
            assert_eq!(find(command.name.as_bytes()).unwrap().name, command.name);
            let upper = command.name.to_uppercase();
            assert_eq!(find(upper.as_bytes()).unwrap().name, command.name);
        }
        assert!(find(b"nosuch").is_none());
        assert!(find(b"").is_none());
    }
}
