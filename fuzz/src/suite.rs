//! The part of the suite that needs neither proptest nor the linearizability checker.

#[path = "../../crates/tree/tests/suite/any_bits.rs"]
pub mod any_bits;
#[path = "../../crates/tree/tests/suite/asks.rs"]
pub mod asks;
#[path = "../../crates/tree/tests/suite/check.rs"]
pub mod check;
#[path = "../../crates/tree/tests/suite/clockwork.rs"]
pub mod clockwork;
#[path = "../../crates/tree/tests/suite/draw.rs"]
pub mod draw;
#[path = "../../crates/tree/tests/suite/effort.rs"]
pub mod effort;
#[path = "../../crates/tree/tests/suite/map.rs"]
pub mod map;
#[path = "../../crates/tree/tests/suite/migrator.rs"]
pub mod migrator;
#[path = "../../crates/tree/tests/suite/moving.rs"]
pub mod moving;
#[path = "../../crates/tree/tests/suite/names.rs"]
pub mod names;
#[path = "../../crates/tree/tests/suite/ops.rs"]
pub mod ops;
#[path = "../../crates/tree/tests/suite/placing.rs"]
pub mod placing;
#[path = "../../crates/tree/tests/suite/arenas.rs"]
pub mod arenas;
#[path = "../../crates/tree/tests/suite/threads.rs"]
pub mod threads;

pub use map::TestMap;
