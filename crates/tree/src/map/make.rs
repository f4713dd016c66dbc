//! How maps are made: in given memory here, in plain memory or tiers by a [`Builder`].

use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::builder::Builder;
use super::{Map, Shared};
use crate::{Art, BTree, Error, Key, Masstree, Value};

/// A tree that can be made, for keys `K` and values `V`.
pub trait Make<K: ?Sized, V>: Placed + Sized + 'static {
    /// The memory that its nodes live in.
    type Memory: Memory;
    /// Where a placement keeps the heat of its leaves.
    const HEAT: HeatIn;
    /// The largest span of addresses that its links reach, in bytes.
    const REACH: usize = usize::MAX;

    /// An empty tree.
    fn make(
        memory: Self::Memory,
        placement: Arc<dyn Placement>,
        domain: Domain,
    ) -> Result<Self, Error>;
}

impl<T: Make<K, V>, K: ?Sized, V> Map<T, K, V> {
    /// An empty map in `memory`, its nodes placed by `placement`. A low-level constructor, for
    /// memory such as the emulator: the caller makes both, and starts the placement's workers on
    /// [`placed`](Self::placed).
    ///
    /// # Errors
    /// No memory for the first node, or links don't reach all of the memory.
    pub fn in_memory(memory: T::Memory, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        Self::in_domain(Domain::new(), memory, placement)
    }

    /// The same, in an epoch domain that maps share: see [`domain`](Self::domain).
    ///
    /// # Errors
    /// As for [`in_memory`](Self::in_memory).
    pub fn in_domain(
        domain: Domain,
        memory: T::Memory,
        placement: Arc<dyn Placement>,
    ) -> Result<Self, Error> {
        let tree = T::make(memory, placement, domain)?;
        Ok(Map::of(Shared::new(tree)))
    }
}

macro_rules! constructors {
    (
        $(#[$example:meta])*
        $map:ident [$($key:tt)*] <$k:ident $(: ?$sized:ident)?, $v:ident $(: $value:ident)?>
    ) => {
        // The bounds are the methods', so that a type that is no key or value is told as such.
        impl<$k $(: ?$sized)?, $v $(: $value)?> $map<$k, $v> {
            /// An empty map in plain memory. It grows with its records, and has no worker.
            ///
            $(#[$example])*
            ///
            /// # Panics
            /// There is no memory for an empty map.
            pub fn new() -> Self
            where
                $k: $($key)*,
                $v: Value,
            {
                Self::default()
            }

            /// Settings of a map: the limit of each memory tier, and the placement of its nodes.
            pub fn builder() -> Builder<Self>
            where
                $k: $($key)*,
                $v: Value,
            {
                Builder::new()
            }
        }
    };
}

constructors! {
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// map.insert(&7, 49)?;
    /// assert_eq!(map.get(&7), Some(49));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    BTree [Key] <K: ?Sized, V: Value>
}

constructors! {
    /// ```
    /// let map = timberline::Art::<str, u64>::new();
    /// map.insert("seven", 7)?;
    /// assert_eq!(map.get("seven"), Some(7));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    Art [Key] <K: ?Sized, V>
}

constructors! {
    /// ```
    /// let map = timberline::Masstree::<str, u64>::new();
    /// map.insert("seven", 7)?;
    /// assert_eq!(map.get("seven"), Some(7));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    Masstree [Key] <K: ?Sized, V: Value>
}

impl<T: Make<K, V, Memory = Native>, K: ?Sized, V> Default for Map<T, K, V> {
    /// An empty map in plain memory.
    fn default() -> Self {
        match Builder::<Self>::new().build() {
            Ok(map) => map,
            Err(error) => panic!("no memory for an empty map: {error}"),
        }
    }
}
