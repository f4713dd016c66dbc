//! A run with a live view, `bench --live`, which ends when it is dropped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The placements: one that moves nothing, two that move nodes, one that moves pages.
pub const PLACEMENTS: &str = "interleave,sidle,timberline,memtis";

pub struct Run {
    child: Child,
    /// Where its page is.
    pub url: String,
}

impl Run {
    /// Starts a run that does not end by itself.
    pub fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command
            .args(["bench", "--live", "--quiet", "--records", "100k"])
            .args(["--workloads", "ycsb-a", "--placements", PLACEMENTS])
            .args(["--threads", "2", "--base-ns", "100"])
            .args(["--warmup", "1", "--seconds", "0.2", "--rounds", "10000"])
            .arg("--html")
            .arg(folder.join("report.html"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let said = child.stderr.take().map(BufReader::new);
        let mut run = Run {
            child,
            url: String::new(),
        };
        let first = said.and_then(|said| said.lines().next()?.ok());
        let first = first.unwrap_or_default();
        match first.strip_prefix("live view: ") {
            Some(url) => run.url = url.into(),
            None => return Err(format!("bench does not say where its page is: {first}")),
        }
        Ok(run)
    }

    /// Ends it at once.
    pub fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end();
    }
}
