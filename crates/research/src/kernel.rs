//! `kernel`: no placement of ours. The map begins in slow memory, and the kernel moves its pages.

use crate::table::{Kind, Make, Row, Tiers};

pub(crate) const ROW: Row = Row {
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    ..Row::new(
        "kernel",
        "pages of real memory, moved by the kernel",
        Make::Kernel,
    )
};
