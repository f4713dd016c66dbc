//! A command in several processes of its own, one after the other, and their reports as one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_bench::report::{Report, combine};

use crate::Failure;

/// The option that tells a process to write its report to a file and print nothing.
const REPORT: &str = "--process-report";

/// Removes its file when dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs this command `count` times, and combines the reports. An interrupt reaches all processes of
/// the terminal: the running one reports its results so far, and no further one is started.
pub fn run(count: u32, interrupted: &AtomicBool) -> Result<Report, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let (mut names, mut reports) = (Vec::new(), Vec::new());
    for nth in 1..=count {
        if interrupted.load(Relaxed) {
            break;
        }
        let name = format!("timberline-{}-{nth}.json", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        let status = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .arg(REPORT)
            .arg(&scratch.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let status = status.map_err(|error| {
            Failure::Failed(format!("can't start process {nth} of {count}: {error}"))
        })?;
        if status.success() || (interrupted.load(Relaxed) && scratch.0.exists()) {
            names.push(format!("process {nth}"));
            reports.push(Report::read(&scratch.0).map_err(Failure::Failed)?);
        } else if !interrupted.load(Relaxed) {
            let line = format!("process {nth} of {count} failed ({status})");
            return Err(Failure::Failed(line));
        }
    }
    let none = || Failure::Interrupted("interrupted before the first measurement".into());
    let mut report = combine(&names, reports).ok_or_else(none)?;
    report.meta.command = std::env::args().collect::<Vec<_>>().join(" ");
    Ok(report)
}
