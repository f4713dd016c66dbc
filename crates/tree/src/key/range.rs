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
///
/// Code that is generic over `RangeBounds` passes the pair of its bounds, since an implementation
/// for all of its types would overlap with those for ranges of references and of owned forms:
///
/// ```
/// use std::ops::RangeBounds;
/// use timberline::BTree;
///
/// fn sum(map: &BTree<u64, u64>, keys: impl RangeBounds<u64>) -> u64 {
///     let range = map.range((keys.start_bound(), keys.end_bound()));
///     range.map(|(_, value)| value).sum()
/// }
///
/// let map: BTree<u64, u64> = (0..10).map(|key| (key, 1)).collect();
/// assert_eq!(sum(&map, 3..=5), 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of keys `{Q}`",
    label = "not a range of keys `{Q}`",
    note = "of any `RangeBounds`, pass `(range.start_bound(), range.end_bound())`"
)]
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
