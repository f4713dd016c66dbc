//! Size classes of slots.
//!
//! Multiples of 8 from 16 to 128 bytes, then eight steps for each doubling up to 128 KiB: 144,
//! 160, … 256, 288, … 512, 576 and so on. So rounding up wastes at most an eighth (below 64 bytes,
//! 7 bytes), every power of two is a class, and shifts find the class of a size.

/// The largest slot, in bytes.
pub const MAX_SLOT: usize = 128 << 10;

/// The number of classes.
pub const CLASSES: usize = FINE + COARSE_DOUBLINGS * STEPS;

/// The smallest slot.
const MIN_SLOT: usize = 16;
/// Sizes up to [`FINE_MOST`] are multiples of this.
const GRAIN: usize = 8;
const FINE_MOST: usize = 128;
const FINE: usize = FINE_MOST / GRAIN - MIN_SLOT / GRAIN + 1;
/// Classes in each doubling above.
const STEPS: usize = 8;
const COARSE_DOUBLINGS: usize = (MAX_SLOT / FINE_MOST).ilog2() as usize;

/// The bytes of a slot for `size` bytes: `size` rounded up to a size class. O(1).
///
/// # Panics
/// If `size` is 0 or above 131,072.
#[inline]
pub const fn slot_size(size: usize) -> usize {
    assert!(0 < size && size <= MAX_SLOT, "slots have 1 to 131072 bytes");
    size_of_class(nearest(size))
}

/// The class of the slots for `size` bytes.
///
/// # Panics
/// If `size` is 0 or above [`MAX_SLOT`].
#[inline(always)]
pub fn class_of(size: usize) -> usize {
    assert!(
        0 < size && size <= MAX_SLOT,
        "no slots of {size} bytes: they have 1 to {MAX_SLOT}"
    );
    nearest(size)
}

/// Bytes of a slot of this class.
#[inline]
pub const fn size_of_class(class: usize) -> usize {
    SIZES[class]
}

const SIZES: [usize; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = if class < FINE {
            MIN_SLOT + class * GRAIN
        } else {
            let (doubling, step) = ((class - FINE) / STEPS, (class - FINE) % STEPS);
            ((FINE_MOST / STEPS) << doubling) * (STEPS + step + 1)
        };
        class += 1;
    }
    sizes
};

/// The smallest class whose slots hold `size` bytes, at most [`MAX_SLOT`].
#[inline(always)]
const fn nearest(size: usize) -> usize {
    if size <= FINE_MOST {
        let size = if size < MIN_SLOT { MIN_SLOT } else { size };
        return size.div_ceil(GRAIN) - MIN_SLOT / GRAIN;
    }
    // The top bit of the last byte's offset gives the doubling, the next three bits the step.
    let last = size - 1;
    let doubling = (last.ilog2() - FINE_MOST.ilog2()) as usize;
    let step = last >> (last.ilog2() - STEPS.ilog2());
    FINE + doubling * STEPS + step % STEPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_first_class_that_holds_it() {
        assert!(SIZES.is_sorted_by(|a, b| a < b));
        let mut class = 0;
        for size in 1..=MAX_SLOT {
            class += usize::from(SIZES[class] < size);
            assert_eq!(class_of(size), class, "{size} bytes");
            assert_eq!(slot_size(size), SIZES[class], "{size} bytes");
        }
        assert_eq!(class, CLASSES - 1);
    }

    #[test]
    fn little_is_wasted() {
        for size in 16..=MAX_SLOT {
            let wasted = slot_size(size) - size;
            assert!(wasted < 8 || wasted * 8 < size, "{wasted} bytes at {size}");
        }
        for power in 4..=17 {
            assert_eq!(slot_size(1 << power), 1 << power);
        }
        let sizes = [1, 24, 40, 96, 129, 480, 1040, 65_540].map(slot_size);
        assert_eq!(sizes, [16, 24, 40, 96, 144, 480, 1152, 73_728]);
    }

    #[test]
    #[should_panic(expected = "no slots of 131073 bytes")]
    fn too_large_names_the_size_and_the_limit() {
        class_of(MAX_SLOT + 1);
    }

    #[test]
    #[should_panic(expected = "no slots of 0 bytes")]
    fn nothing_has_no_slot() {
        class_of(0);
    }
}
