//! Ranges of keys, as methods take them.

use std::borrow::Borrow;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys `Q`: any range of the standard library, of keys, references to them, or owned
/// forms of them, and a pair of bounds.
///
/// ```
/// use std::ops::Bound;
/// use timberline::KeyRange;
///
/// fn is_range<Q: ?Sized>(_: impl KeyRange<Q>) {}
///
/// is_range::<u64>(..);
/// is_range::<u64>(3..=5);
/// is_range::<u64>(&3..);
/// is_range::<str>("a".."b");
/// is_range::<str>(..String::from("b"));
/// is_range::<[u8]>((Bound::Excluded([1, 2]), Bound::Unbounded));
/// ```
pub trait KeyRange<Q: ?Sized> {
    /// Where it begins.
    fn low(&self) -> Bound<&Q>;
    /// Where it ends.
    fn high(&self) -> Bound<&Q>;
}

impl<Q: ?Sized> KeyRange<Q> for RangeFull {
    fn low(&self) -> Bound<&Q> {
        Bound::Unbounded
    }
    fn high(&self) -> Bound<&Q> {
        Bound::Unbounded
    }
}

macro_rules! range {
    ($($range:ty),*) => {$(
        impl<Q: ?Sized, B: Borrow<Q>> KeyRange<Q> for $range {
            #[inline]
            fn low(&self) -> Bound<&Q> {
                RangeBounds::<B>::start_bound(self).map(B::borrow)
            }
            #[inline]
            fn high(&self) -> Bound<&Q> {
                RangeBounds::<B>::end_bound(self).map(B::borrow)
            }
        }
    )*};
}

range!(
    Range<B>,
    RangeFrom<B>,
    RangeInclusive<B>,
    RangeTo<B>,
    RangeToInclusive<B>,
    (Bound<B>, Bound<B>)
);
