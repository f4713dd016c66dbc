//! The modes of a descent to a record, in trees whose records may have copies.

/// The mode of a descent.
pub(crate) trait Mode {
    /// Other work runs between two steps, so each prefetches the next node, and emulated memory
    /// delays it. Otherwise the next step follows at once; a prefetch then only makes one wait of
    /// several.
    const LATER: bool;
    /// The record is only read, so a copy of it will do. Otherwise the descent ends at the leaf.
    const OR_COPY: bool;
}

macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident: $later:literal, $or_copy:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) enum $mode {}

        impl Mode for $mode {
            const LATER: bool = $later;
            const OR_COPY: bool = $or_copy;
        }
    )*};
}

modes! {
    /// To a leaf, in one go.
    LeafAtOnce: false, false;
    /// To a leaf, waiting for writers.
    LeafLater: true, false;
    /// To a value, in one go.
    ValueAtOnce: false, true;
    /// To a value, beside other lookups.
    ValueLater: true, true;
}
