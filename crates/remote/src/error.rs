//! What can go wrong between servers.

use std::fmt;

use crate::address::{Address, ComputeId, ServerId};

/// An operation on the pool, or on a tree in it, that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// No answer came before the deadline. **Whether the operation was carried out is not known.**
    TimedOut(ServerId),
    /// The connection to the server broke. **Whether the operation was carried out is not known.**
    Lost(ServerId),
    /// There is no connection to the server, for this reason. The operation was not carried out.
    Unreachable(ServerId, String),
    /// This machine cannot have the fabric, for this reason.
    NoFabric(String),
    /// The pool has no such server.
    NoServer(ServerId),
    /// So many memory servers are more than a pool can have: 65,535.
    TooManyServers(usize),
    /// The address is not within the server's memory, or no multiple of 8.
    OutOfRange(Address),
    /// The system does not give a server so many bytes.
    OutOfMemory(usize),
    /// The server has no memory left to give.
    PoolFull(ServerId),
    /// This compute server was taken for dead, and others have its keys. Nothing that it does
    /// reaches the pool any more.
    Fenced,
    /// This compute server could not renew its lease in time: others may have its keys by now, or
    /// soon. **Whether the operation was carried out is not known.**
    LeaseExpired,
    /// The future of an operation was dropped while it split a node. Nothing can be written any
    /// more.
    Abandoned,
    /// No such compute server shares the tree, or it was taken for dead.
    NoMember(ComputeId),
    /// So many compute servers share the tree already.
    TooManyMembers(usize),
    /// These would be more partitions than a table has.
    TooManyPartitions(usize),
    /// This compute server holds a lock in the pool, and does not release it.
    Locked(Address, ComputeId),
    /// The pool holds no tree, or one of another version.
    NoTree(String),
    /// Whether several compute servers write the tree's leaves. This one is not set so.
    SharedLeaves(bool),
    /// A member's leaves are its own, and are cached.
    DirectMember,
    /// etcd refused, did not answer, or is none: what is said is a line. **Whether it did what was
    /// asked for is not known** if it did not answer.
    Etcd(String),
    /// The owners of this tree's keys are written elsewhere than this member would: in etcd, if it
    /// is set, or else in the pool.
    OwnersElsewhere {
        /// Whether they are in etcd.
        in_etcd: bool,
    },
    /// The pool has a tree already, or something else.
    PoolInUse,
    /// What lies there is no node.
    NotANode(Address),
    /// What lies there is not the record that it should be.
    Damaged(Address),
    /// A record of so many bytes is longer than any may be.
    RecordTooLong(usize),
    /// The pool has no tree, but this memory server has handed out memory.
    NotEmpty(ServerId),
    /// The key belongs to another compute server's partition.
    NotOwned(u64),
    /// The cache cannot hold a path to a leaf.
    CacheTooSmall {
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that it needs.
        least: usize,
    },
    /// Keys to load have to ascend; this one does not.
    OutOfOrder(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TimedOut(server) => write!(
                f,
                "memory server {server} did not answer in time; the operation may have been done"
            ),
            Error::Lost(server) => write!(
                f,
                "the connection to memory server {server} broke; the operation may have been done"
            ),
            Error::Unreachable(server, reason) => {
                write!(f, "memory server {server} cannot be reached: {reason}")
            }
            Error::NoFabric(reason) => f.write_str(reason),
            Error::NoServer(server) => write!(f, "there is no memory server {server}"),
            Error::TooManyServers(count) => {
                write!(f, "{count} memory servers are too many: 65535 is the most")
            }
            Error::OutOfRange(address) => write!(f, "there is no memory at {address}"),
            Error::OutOfMemory(bytes) => write!(f, "there are no {bytes} bytes of memory"),
            Error::PoolFull(server) => write!(f, "memory server {server} is full"),
            Error::Fenced => {
                f.write_str("this compute server was taken for dead; others have its keys")
            }
            Error::LeaseExpired => f.write_str(
                "this compute server's lease has expired; the operation may have been done",
            ),
            Error::Abandoned => {
                f.write_str("an operation was dropped while it split a node; open the tree again")
            }
            Error::NoMember(compute) => {
                write!(
                    f,
                    "compute server {compute} does not share the tree, or is dead"
                )
            }
            Error::TooManyMembers(most) => {
                write!(
                    f,
                    "{most} compute servers share the tree, which is the most"
                )
            }
            Error::TooManyPartitions(count) => write!(
                f,
                "{count} partitions are too many: {} is the most",
                crate::pool::MAX_PARTITIONS
            ),
            Error::Locked(at, holder) => {
                write!(
                    f,
                    "compute server {holder} does not release the lock at {at}"
                )
            }
            Error::NoTree(reason) => write!(f, "the pool holds no tree: {reason}"),
            Error::SharedLeaves(true) => write!(
                f,
                "all compute servers write the tree's leaves, and this one would take them for its \
                 own: Options::direct has to say so"
            ),
            Error::SharedLeaves(false) => write!(
                f,
                "the tree's leaves have one compute server each, and this one would share them: \
                 Layout::shared_leaves has to say so when the tree is loaded"
            ),
            Error::DirectMember => write!(
                f,
                "a member's leaves are its own, and are cached: Options::direct is for others"
            ),
            Error::Etcd(line) => write!(f, "{line}"),
            Error::OwnersElsewhere { in_etcd: true } => write!(
                f,
                "the owners of this tree's keys are written in etcd: say in which (--etcd)"
            ),
            Error::OwnersElsewhere { in_etcd: false } => write!(
                f,
                "the owners of this tree's keys are written in the pool, not in etcd"
            ),
            Error::PoolInUse => f.write_str("the memory servers have a tree already"),
            Error::NotANode(address) => write!(f, "there is no node at {address}"),
            Error::Damaged(address) => write!(f, "the record at {address} is damaged"),
            Error::RecordTooLong(bytes) => write!(
                f,
                "a record of {bytes} bytes is too long: {} is the most",
                crate::records::MAX_RECORD
            ),
            Error::NotEmpty(server) => write!(
                f,
                "memory server 0 has no tree, but memory server {server} is in use: the servers \
                 have to be given in the order that the tree was made with"
            ),
            Error::NotOwned(key) => write!(f, "key {key} is in another server's partition"),
            Error::CacheTooSmall { bytes, least } => {
                write!(
                    f,
                    "a cache of {bytes} bytes is too small: {least} is the least"
                )
            }
            Error::OutOfOrder(key) => write!(f, "key {key} is not above the one before"),
        }
    }
}

impl std::error::Error for Error {}

/// The result of an operation on the pool.
pub type Result<T> = std::result::Result<T, Error>;
