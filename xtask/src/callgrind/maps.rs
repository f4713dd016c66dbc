//! Instructions of get, insert and scan of every map: to be run before and after a change of the
//! maps' structure, which must not cost any.

use std::path::Path;

use super::{build, cost};

const EXAMPLE: &str = "map_ops";
const MAPS: [&str; 5] = ["btree", "strings", "art", "masstree", "remote"];
/// Operations, and the number in a short and in a long run of each.
const OPERATIONS: [(&str, [u64; 2]); 3] = [
    ("get", [10_000, 30_000]),
    ("insert", [10_000, 30_000]),
    ("scan", [1_000, 3_000]),
];

/// Counts all operations and prints the table.
pub fn measure(root: &Path) -> Result<(), String> {
    let (binary, out) = build(root, EXAMPLE)?;
    println!("{:<20} {:>22}", "operation", "instructions/operation");
    for map in MAPS {
        for (operation, numbers) in OPERATIONS {
            let variant = format!("{map}-{operation}");
            let cost = cost(&binary, &variant, numbers, &out)?;
            println!("{variant:<20} {cost:>22.1}");
        }
    }
    Ok(())
}
