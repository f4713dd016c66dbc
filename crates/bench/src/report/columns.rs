//! The columns of a report's tables, and their cells.

use super::figures;
use super::groups::Group;
use super::result::Outcome;

#[derive(Clone, Copy)]
pub struct Column {
    /// Two header lines.
    pub head: [&'static str; 2],
    /// Whether its cells are words instead of numbers.
    pub is_text: bool,
    pub cell: fn(&Group<'_>, &Outcome) -> String,
}

const fn number(head: [&'static str; 2], cell: fn(&Group<'_>, &Outcome) -> String) -> Column {
    Column {
        head,
        is_text: false,
        cell,
    }
}

const PLACEMENT: Column = Column {
    head: ["placement", ""],
    is_text: true,
    cell: |group, it| group.label(it),
};

/// How fast a placement is, beside its references.
pub const SPEED: [Column; 4] = [
    PLACEMENT,
    number(["Mops/s", "median [min, max]"], |_, it| {
        figures::throughput(it)
    }),
    number(["regained", "median [95 %]"], |_, it| figures::regained(it)),
    number(["regained", "÷oracle"], |_, it| {
        figures::share(it.regained_to_oracle)
    }),
];

/// Its throughput over that of references, in rounds that ran side by side.
pub const RATIOS: [Column; 4] = [
    PLACEMENT,
    number(["÷interleave", "median [95 %]"], |_, it| {
        figures::ratio(it.ratio_to_interleave, it.to_interleave())
    }),
    number(["÷oracle", "median [95 %]"], |_, it| {
        figures::ratio(it.ratio_to_oracle, it.to_oracle())
    }),
    number(["÷all-fast", "median [95 %]"], |_, it| {
        figures::ratio(it.ratio_to_all_fast, it.to_all_fast())
    }),
];

/// Where its time goes.
pub const COSTS: [Column; 6] = [
    PLACEMENT,
    number(["regained by", "charge/CPU/p50"], |_, it| {
        figures::regained_otherwise(it)
    }),
    number(["fast", "share"], |_, it| figures::share(it.fast_share)),
    number(["slow", "lines/ns"], |_, it| figures::slow_lines(it)),
    number(["µs", "p50/p99"], |_, it| {
        figures::micros([it.p50_ns, it.p99_ns])
    }),
    number(["worker", "cores"], |_, it| {
        format!("{:.2}", it.worker_cores)
    }),
];

/// Its moves and its memory use.
pub const MEMORY: [Column; 4] = [
    PLACEMENT,
    number(["promoted", "/demoted"], |_, it| figures::moves(it)),
    number(["fast memory", "used/budget"], |_, it| {
        figures::bytes_of(it.fast_bytes, it.fast_budget_bytes)
    }),
    number(["B per", "record"], |_, it| {
        format!("{:.1}", it.bytes_per_record)
    }),
];

/// All of them, the placement once.
pub fn all() -> impl Iterator<Item = Column> {
    let others = [&RATIOS[1..], &COSTS[1..], &MEMORY[1..]].concat();
    SPEED.into_iter().chain(others)
}
