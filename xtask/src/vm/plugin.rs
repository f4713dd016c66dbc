//! QEMU's plugin that counts accesses: compiled from `plugin/accesses.c`, and its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec;

const SOURCE: &str = include_str!("plugin/accesses.c");

/// Lines that had to come from memory, between two marks of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Loads and stores of the map, cached ones among them.
    pub accesses: u64,
    /// The map's missing lines on the fast node.
    pub fast: u64,
    /// On the slow node.
    pub slow: u64,
    /// Other missing lines, on either.
    pub elsewhere: u64,
}

impl Interval {
    /// Missing lines of the map that came from the fast node, over all.
    pub fn fast_share(&self) -> f64 {
        self.fast as f64 / (self.fast + self.slow).max(1) as f64
    }
}

/// The compiled plugin, and where it writes.
pub struct Plugin {
    library: PathBuf,
    out: PathBuf,
}

impl Plugin {
    /// # Errors
    /// There is no C compiler, or it refuses.
    pub fn compile(folder: &Path) -> Result<Plugin, String> {
        let [source, library, out] =
            ["accesses.c", "accesses.so", "accesses.txt"].map(|name| folder.join(name));
        fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut compile = Command::new("cc");
        compile
            .args("-std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter".split(' '))
            .args(["-shared", "-fPIC", "-fvisibility=hidden", "-o"])
            .arg(&library)
            .arg(&source);
        exec::succeed(compile)?;
        Ok(Plugin { library, out })
    }

    /// The argument for QEMU. `slow` is the start address of the slow node, and `cache` the
    /// modelled cache's size in bytes.
    pub fn argument(&self, slow: u64, cache: u64) -> String {
        let (library, out) = (self.library.display(), self.out.display());
        format!("{library},out={out},slow={slow},cache={cache}")
    }

    /// The intervals, in order.
    pub fn intervals(&self) -> Result<Vec<Interval>, String> {
        let text = fs::read_to_string(&self.out);
        let text = text.map_err(|error| format!("{}: {error}", self.out.display()))?;
        let lines = text.lines();
        let read = |line: &str| read(line).ok_or_else(|| format!("the plugin wrote `{line}`"));
        lines.map(read).collect()
    }
}

fn read(line: &str) -> Option<Interval> {
    let numbers: Vec<u64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [
        _,
        loads,
        stores,
        fast,
        slow_loads,
        slow_stores,
        slow,
        other_fast,
        other_slow,
    ] = numbers[..]
    else {
        return None;
    };
    Some(Interval {
        accesses: loads + stores + slow_loads + slow_stores,
        fast,
        slow,
        elsewhere: other_fast + other_slow,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_interval() {
        let line = "interval 2 fast loads 10 stores 1 missed 6 slow loads 20 stores 2 missed 2 elsewhere fast 3 slow 4";
        let interval = read(line).unwrap();
        let expected = Interval {
            accesses: 33,
            fast: 6,
            slow: 2,
            elsewhere: 7,
        };
        assert_eq!(interval, expected);
        assert!((interval.fast_share() - 0.75).abs() < 1e-9);
        assert_eq!(read("interval 2 fast loads 10"), None);
    }
}
