//! The kernel's own tiering: switches its mechanisms that move pages between NUMA nodes, and
//! restores the former settings when a value is dropped.
//!
//! Linux `Documentation/admin-guide/sysctl/kernel.rst` (`numa_balancing`),
//! `ABI/testing/sysfs-kernel-mm-numa` and `admin-guide/mm/damon/usage.rst`; the schemes for DAMON
//! are those of Taneja.
//!
//! Invariants: a file is read before it is written. Its former content is written back, in the
//! opposite order, when the value is dropped or when a later file can't be written. A process that
//! is killed restores nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::os::HUGE_PAGE;

mod damon;
mod moved;

pub use moved::{KernelMoves, MoveCounter};

const NUMA_BALANCING: &str = "proc/sys/kernel/numa_balancing";
const DEMOTION: &str = "sys/kernel/mm/numa/demotion_enabled";

/// A mechanism of the kernel that moves pages between tiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelTiering {
    /// None: pages stay where they are.
    None,
    /// NUMA balancing promotes pages that are accessed again soon, and reclaim demotes (TPP, as
    /// merged in Linux 6.1).
    AutoNuma,
    /// DAMON's schemes `migrate_hot` and `migrate_cold` (from Linux 6.11 on).
    Damon,
}

impl KernelTiering {
    /// The names of all, as on a command line.
    pub const NAMES: [(&'static str, KernelTiering); 3] = [
        ("none", KernelTiering::None),
        ("autonuma", KernelTiering::AutoNuma),
        ("damon", KernelTiering::Damon),
    ];

    /// The mechanism of this name.
    pub fn parse(name: &str) -> Option<KernelTiering> {
        let mut all = Self::NAMES.into_iter();
        all.find(|(known, _)| *known == name).map(|(_, it)| it)
    }

    /// Lets it, and no other mechanism, move pages between NUMA nodes `fast` and `slow` of the
    /// machine below `root`, until the value is dropped.
    ///
    /// # Errors
    /// The kernel does not have it, or this process may not set it; nothing is changed then.
    pub fn set(self, root: &Path, fast: u32, slow: u32) -> Result<Set, TieringError> {
        let (balancing, demotion) = match self {
            KernelTiering::AutoNuma => ("2", "1"),
            KernelTiering::None | KernelTiering::Damon => ("0", "0"),
        };
        let mut writes = vec![
            (DEMOTION.to_string(), demotion.to_string()),
            (NUMA_BALANCING.to_string(), balancing.to_string()),
        ];
        if self == KernelTiering::Damon {
            writes.extend(damon::writes(root, fast, slow)?);
        }
        let mut set = Set { before: Vec::new() };
        for (path, value) in writes {
            set.write(root.join(path), &value)?;
        }
        Ok(set)
    }
}

/// Allocates up to `bytes` of a node's free memory as unused huge pages, until the value is
/// dropped. The kernel moves a process's pages, even locked ones, but never these. Returns the
/// number of bytes.
///
/// # Errors
/// The kernel has no such pages, or this process may not take them; nothing is changed then.
pub fn hold(root: &Path, node: u32, bytes: usize) -> Result<(Set, usize), TieringError> {
    // Compaction first, for contiguous memory; a kernel that lacks it has less to give.
    let _ = fs::write(
        root.join(format!("sys/devices/system/node/node{node}/compact")),
        "1",
    );
    let kib = HUGE_PAGE >> 10;
    let path =
        format!("sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages");
    let path = root.join(path);
    let pages = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().parse::<usize>().unwrap_or(0)
    };
    let before = pages(&path);
    let mut set = Set { before: Vec::new() };
    set.write(path.clone(), &(before + bytes / HUGE_PAGE).to_string())?;
    // The kernel allocates as many as it can.
    let taken = pages(&path).saturating_sub(before) * HUGE_PAGE;
    Ok((set, taken))
}

/// Settings in force; dropping it restores what was there before.
#[must_use = "settings are restored when this is dropped"]
#[derive(Debug)]
pub struct Set {
    /// The former content of each file, in the order of the writes.
    before: Vec<(PathBuf, String)>,
}

impl Set {
    fn write(&mut self, path: PathBuf, value: &str) -> Result<(), TieringError> {
        let failed = |error: std::io::Error| TieringError {
            path: path.clone(),
            reason: error.to_string(),
        };
        let before = fs::read_to_string(&path).map_err(failed)?;
        fs::write(&path, value).map_err(failed)?;
        self.before.push((path, before.trim().to_owned()));
        Ok(())
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        for (path, value) in self.before.drain(..).rev() {
            // A file that could be written before can be written again; if not, the rest is still
            // restored.
            let _ = fs::write(path, value);
        }
    }
}

/// A setting of the kernel that can't be made. `Display` is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TieringError {
    /// The file.
    pub path: PathBuf,
    /// The operating system's message.
    pub reason: String,
}

impl fmt::Display for TieringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (self.path.display(), &self.reason);
        write!(
            f,
            "the kernel's tiering can't be set by {path}: {reason}; it is as before"
        )
    }
}

impl std::error::Error for TieringError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder with the two files.
    pub(super) struct Machine(pub(super) PathBuf);

    impl Machine {
        pub(super) fn new(name: &str) -> Machine {
            let folder =
                std::env::temp_dir().join(format!("timberline-{name}-{}", std::process::id()));
            let machine = Machine(folder);
            for (file, text) in [(NUMA_BALANCING, "1\n"), (DEMOTION, "false\n")] {
                machine.put(file, text);
            }
            machine
        }

        pub(super) fn put(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn values(&self) -> [String; 2] {
            [NUMA_BALANCING, DEMOTION].map(|file| fs::read_to_string(self.0.join(file)).unwrap())
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn settings_last_as_long_as_the_value() {
        let machine = Machine::new("tiering");
        let set = KernelTiering::AutoNuma.set(&machine.0, 0, 1).unwrap();
        assert_eq!(machine.values(), ["2", "1"]);
        drop(set);
        assert_eq!(machine.values(), ["1", "false"]);
        drop(KernelTiering::None.set(&machine.0, 0, 1).unwrap());
        assert_eq!(machine.values(), ["1", "false"]);
    }

    #[test]
    fn where_one_can_not_be_set_none_is() {
        let machine = Machine::new("half-tiering");
        fs::remove_file(machine.0.join(NUMA_BALANCING)).unwrap();
        let error = KernelTiering::AutoNuma.set(&machine.0, 0, 1).unwrap_err();
        assert!(error.to_string().contains("numa_balancing"), "{error}");
        assert_eq!(
            fs::read_to_string(machine.0.join(DEMOTION)).unwrap(),
            "false"
        );
    }

    #[test]
    fn names() {
        assert_eq!(KernelTiering::parse("damon"), Some(KernelTiering::Damon));
        assert_eq!(KernelTiering::parse("tpp"), None);
    }
}
