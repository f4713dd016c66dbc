//! The pages that the kernel moved between NUMA nodes: its own counters, of the whole machine, as
//! Taneja reads them.
//!
//! Invariant: a counter that the kernel lacks is `None`, never 0.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::damon;

const VMSTAT: &str = "proc/vmstat";

/// The pages that the kernel moved, by reason. The names are those of `/proc/vmstat`, except
/// DAMON's, which are `sz_applied` of its schemes in sysfs. `None` (`null` in JSON) if the kernel
/// lacks the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelMoves {
    /// Pages that NUMA balancing promoted.
    pub pgpromote_success: Option<u64>,
    /// Pages that reclaim in the background demoted.
    pub pgdemote_kswapd: Option<u64>,
    /// Pages that threads demoted when they needed memory.
    pub pgdemote_direct: Option<u64>,
    /// Faults by which NUMA balancing learns of accesses.
    pub numa_hint_faults: Option<u64>,
    /// Pages that NUMA balancing moved, to whichever node.
    pub numa_pages_migrated: Option<u64>,
    /// Bytes that DAMON's schemes `migrate_hot` moved.
    pub damon_hot_applied_bytes: Option<u64>,
    /// Bytes that DAMON's schemes `migrate_cold` moved.
    pub damon_cold_applied_bytes: Option<u64>,
}

impl KernelMoves {
    /// Totals since the machine below `root` booted, and since DAMON was started.
    fn read(root: &Path) -> KernelMoves {
        let vmstat = fs::read_to_string(root.join(VMSTAT)).unwrap_or_default();
        let counted = |name: &str| {
            let mut values = vmstat
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.next()?.trim().parse().ok()
        };
        let applied = damon::applied_bytes(root);
        KernelMoves {
            pgpromote_success: counted("pgpromote_success"),
            pgdemote_kswapd: counted("pgdemote_kswapd"),
            pgdemote_direct: counted("pgdemote_direct"),
            numa_hint_faults: counted("numa_hint_faults"),
            numa_pages_migrated: counted("numa_pages_migrated"),
            damon_hot_applied_bytes: applied.hot,
            damon_cold_applied_bytes: applied.cold,
        }
    }

    fn since(self, before: KernelMoves) -> KernelMoves {
        // A counter that was missing before started at 0.
        let grown =
            |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
        KernelMoves {
            pgpromote_success: grown(self.pgpromote_success, before.pgpromote_success),
            pgdemote_kswapd: grown(self.pgdemote_kswapd, before.pgdemote_kswapd),
            pgdemote_direct: grown(self.pgdemote_direct, before.pgdemote_direct),
            numa_hint_faults: grown(self.numa_hint_faults, before.numa_hint_faults),
            numa_pages_migrated: grown(self.numa_pages_migrated, before.numa_pages_migrated),
            damon_hot_applied_bytes: grown(
                self.damon_hot_applied_bytes,
                before.damon_hot_applied_bytes,
            ),
            damon_cold_applied_bytes: grown(
                self.damon_cold_applied_bytes,
                before.damon_cold_applied_bytes,
            ),
        }
    }
}

/// Counts what the kernel moves from now on.
#[derive(Debug)]
pub struct MoveCounter {
    root: PathBuf,
    before: KernelMoves,
}

impl MoveCounter {
    /// Counts on the machine below `root`.
    pub fn begin(root: &Path) -> MoveCounter {
        MoveCounter {
            root: root.into(),
            before: KernelMoves::read(root),
        }
    }

    /// The counts since the start. If DAMON runs, waits until it has updated its files: a tenth of
    /// a second in Linux 6.12, and longer while it moves pages.
    pub fn moved(&self) -> KernelMoves {
        KernelMoves::read(&self.root).since(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;

    /// Of Linux 6.12, with a name that another begins with.
    const TEXT: &str = "nr_free_pages 80213\npgpromote_success 17\n\
        pgpromote_candidate 4096\npgdemote_kswapd 3\n\
                        numa_hint_faults 900\nnuma_hint_faults_local 5\n";

    #[test]
    fn counts_begin_at_nothing_and_what_is_not_counted_is_none() {
        let machine = Machine::new("moved");
        machine.put(VMSTAT, TEXT);
        let counter = MoveCounter::begin(&machine.0);
        machine.put(
            VMSTAT,
            &TEXT
                .replace("success 17", "success 1017")
                .replace("kswapd 3", "kswapd 3\npgdemote_direct 2"),
        );
        let expected = KernelMoves {
            pgpromote_success: Some(1000),
            pgdemote_kswapd: Some(0),
            pgdemote_direct: Some(2),
            numa_hint_faults: Some(0),
            ..KernelMoves::default()
        };
        assert_eq!(counter.moved(), expected);
    }

    #[test]
    fn a_machine_that_tells_nothing_or_nonsense_counted_nothing() {
        let machine = Machine::new("silent");
        assert_eq!(KernelMoves::read(&machine.0), KernelMoves::default());
        machine.put(
            VMSTAT,
            "pgpromote_success\npgdemote_kswapd many\nnuma_hint_faults -1\n",
        );
        assert_eq!(KernelMoves::read(&machine.0), KernelMoves::default());
    }

    #[test]
    fn damons_bytes_are_asked_for_and_told_apart_by_action() {
        let machine = Machine::new("applied");
        let context = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";
        let scheme = |index: usize, action: &str, applied: &str| {
            let of = format!("{context}/schemes/{index}");
            machine.put(&format!("{of}/action"), action);
            machine.put(&format!("{of}/stats/sz_applied"), applied);
        };
        let state = "sys/kernel/mm/damon/admin/kdamonds/0/state";
        machine.put(state, "on\n");
        scheme(0, "migrate_hot\n", "4096\n");
        scheme(1, "stat\n", "1\n");
        let counter = MoveCounter::begin(&machine.0);
        let asked = fs::read_to_string(machine.0.join(state)).unwrap();
        assert_eq!(asked, "update_schemes_stats");
        scheme(0, "migrate_hot\n", "12288\n");
        scheme(2, "migrate_hot\n", "4096\n");
        let moved = counter.moved();
        assert_eq!(moved.damon_hot_applied_bytes, Some(12288));
        assert_eq!(moved.damon_cold_applied_bytes, None);
        scheme(3, "migrate_cold\n", "8192\n");
        assert_eq!(counter.moved().damon_cold_applied_bytes, Some(8192));
    }
}
