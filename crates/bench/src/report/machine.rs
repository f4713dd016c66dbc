//! The machine and the time of a run, for its report.
//!
//! Reads `/proc` under a root that is a parameter, so that tests can use recorded files. Unreadable
//! values become `unknown` or 0: they never cost a report.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::figures;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// CPU model, as the kernel names it.
    pub cpu: String,
    /// CPUs this process may use.
    pub cores: usize,
    /// Memory of the machine, bytes; 0 where unknown.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
}

impl Machine {
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::read(Path::new("/proc"), cores)
    }

    /// A one-line description.
    pub fn line(&self) -> String {
        let memory = figures::bytes(self.memory_bytes);
        format!(
            "{}, {} cores, {memory}, {}",
            self.cpu, self.cores, self.kernel
        )
    }

    /// The machine whose `/proc` is under `proc`; the caller gives its usable cores.
    pub fn read(proc: &Path, cores: usize) -> Self {
        let text = |name: &str| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
        let unknown = || "unknown".to_string();
        Self {
            cpu: value(&text("cpuinfo"), "model name").map_or_else(unknown, str::to_string),
            cores,
            memory_bytes: value(&text("meminfo"), "MemTotal")
                .and_then(|size| size.strip_suffix("kB")?.trim().parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel: match text("sys/kernel/osrelease").trim() {
                "" => unknown(),
                release => format!("Linux {release}"),
            },
        }
    }
}

/// The value of the first line of the form `name: value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The current time in UTC, as `YYYY-MM-DD HH:MM:SS`.
pub fn now() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.replace('T', " ").replace('Z', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_one_form() {
        let digits = |it: char| if it.is_ascii_digit() { '0' } else { it };
        let form: String = now().chars().map(digits).collect();
        assert_eq!(form, "0000-00-00 00:00:00");
    }

    #[test]
    fn first_named_value_wins() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: another\n";
        assert_eq!(value(text, "model name"), Some("A CPU @ 2 GHz"));
        assert_eq!(value(text, "bogomips"), None);
    }

    #[test]
    fn a_machine_without_proc_is_unknown_not_an_error() {
        let machine = Machine::read(Path::new("/nonexistent"), 4);
        assert_eq!(machine.cpu, "unknown");
        assert_eq!((machine.cores, machine.memory_bytes), (4, 0));
    }
}
