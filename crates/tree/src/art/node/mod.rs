//! The nodes of the radix tree: leaves of one record, a few or many, and inner nodes of four sizes.
//!
//! ```text
//! leaf    0  state u16 · heat u16 · key length u32     8  value        16  key bytes
//! pack    0  version    8  heat u16 · count u16       16  keys[3]      40  values[3]   64 bytes
//! dense   0  version    8  keys, heat, which are there       64  values      up to 2112 bytes
//!
//! inner   0  version word        8  prefix length u16 · count, end, kind u16
//!   3    12  keys[3]            15  prefix[5]          20  links[3]                     32 bytes
//!   16   12  keys[16]           28  prefix[4]          32  links[16]                    96 bytes
//!   48   12  end                16  prefix[16]         32  index[256]   288  links[48] 480 bytes
//!   256  12  end                16  prefix[16]         32  links[256]                 1056 bytes
//! ```
//!
//! (Offsets with links of 32 bits.) The kinds are those of Leis, Kemper, Neumann: "The Adaptive
//! Radix Tree", ICDE 2013, §III, but for the smallest: of ten million random keys, one in five
//! hangs below a node of two or three, which therefore is half a cache line.
//!
//! **Links** tell what they lead to: a leaf, or which kind of inner node. So a descent asks for a
//! wide node's header and for the slot in it at the same moment, instead of for one after the
//! other.
//!
//! **Prefixes** are compressed optimistically: a node knows the length of its prefix and its first
//! bytes. Whether the rest fits is found out at the leaf, which has the whole key.
//!
//! Invariants, while unlocked: an inner node has at least two entries; entries of the two smallest
//! kinds are sorted; the bytes from the root to where a node branches (its *path*) never change
//! while it lives, though the part of them that is the node's own prefix may; a leaf's key never
//! changes. Everything that changes is an atomic, so reading a node while it changes is a race of
//! values, not of memory; [`Versioned`](timberline_sync::Versioned) discards what was read then.
//! Every index is clamped, because a torn count may be anything.
#![allow(unsafe_code)]

mod base;
mod body;
mod dense;
mod direct;
mod fresh;
mod guess;
mod inner;
mod layout;
mod leaf;
mod link;
mod locked_inner;
mod pack;
mod parent;
mod reach;
mod search;
mod shared;
mod terminal;

pub use base::Base;
pub use body::{AT_END, Body, LAST, Position, Step, position, word_at};
pub use dense::{
    DENSE_DEPTH, DENSE_HEAD, DENSE_KEYS, DenseCapacity, DenseLeaf, LockedDense, Records,
    value_offset,
};
pub use direct::Direct;
pub use fresh::{Fresh, FreshInner, FreshLeaf, Grown, Linkable};
pub use guess::Guess;
pub use inner::Inner;
pub use leaf::{Leaf, leaf_bytes};
pub use link::{InnerLink, Kind, Link, StoredLink};
pub use pack::{PACK_BYTES, PACKED, Pack, PackSnapshot, PackedRecords, Record};
pub use parent::{LockedParent, Parent, Root};
pub use reach::{Far, Near, Reach};
pub use shared::{LockedShared, Shared};
pub use terminal::{LockedTerminal, Removed, Terminal, TerminalKey, number};
