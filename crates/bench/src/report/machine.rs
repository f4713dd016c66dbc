//! The machine and the time of a run, for its report.
//!
//! Reads `/proc` under a root that is a parameter, so that tests can use recorded files. Unreadable
//! values become `unknown` or 0: they never cost a report.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::figures;

/// The machine of a run.
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
    /// This machine.
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
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc_date(since.map_or(0, |since| since.as_secs()))
}

/// `seconds` since 1970 as `YYYY-MM-DD HH:MM:SS`, in UTC.
///
/// Years count from March, so that a leap day is the last day of its year.
pub fn utc_date(seconds: u64) -> String {
    const DAYS_IN_ERA: u64 = 146_097; // 400 years, after which the calendar repeats
    const MARCH_0000_TO_1970: u64 = 719_468;

    let days = seconds / 86_400 + MARCH_0000_TO_1970;
    let (era, day_of_era) = (days / DAYS_IN_ERA, days % DAYS_IN_ERA);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);

    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_around_leap_days() {
        assert_eq!(utc_date(0), "1970-01-01 00:00:00");
        assert_eq!(utc_date(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(utc_date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(utc_date(951_868_800), "2000-03-01 00:00:00");
        assert_eq!(utc_date(1_709_164_800), "2024-02-29 00:00:00");
        assert_eq!(utc_date(1_735_689_599), "2024-12-31 23:59:59");
        assert_eq!(utc_date(4_107_542_400), "2100-03-01 00:00:00");
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
