//! The pages of `bench --html` and of `eval` as files: small runs, inspected as written.

use std::path::Path;
use std::process::{Command, Stdio};

use super::devtools::Page;
use super::{open, wait};

/// What is looked at.
const CHECKS: &str = include_str!("reports.js");
/// Every kind of bar: the references, what moves nodes, what moves pages, the oracle.
const PLACEMENTS: &str = "all-fast,interleave,sidle,timberline,memtis,oracle";
/// Figures with bars and claims, with lines over time, with bounds, and of a simulated cluster.
const FIGURES: [&str; 4] = ["14a", "20", "bounds", "dex-10"];

/// Makes both reports in `folder`, and looks at them.
pub fn check(page: &mut Page, program: &Path, folder: &Path) -> Result<(), String> {
    let report = folder.join("report.html");
    let mut bench = Command::new(program);
    bench
        .args(["bench", "--records", "20k", "--workloads", "hs-c,ycsb-c"])
        .args(["--placements", PLACEMENTS, "--warmup", "0.1"])
        .args(["--seconds", "0.3", "--rounds", "2"])
        .arg("--html")
        .arg(&report);
    look(page, bench, &report, &format!("report('{PLACEMENTS}')"))?;
    println!("browser: the report of bench shows all that it should, and loads nothing");

    let mut eval = Command::new(program);
    eval.arg("eval")
        .args(FIGURES)
        .args(["--quick", "--records", "2000"])
        .args(["--rounds", "2", "--out"])
        .arg(folder.join("eval"));
    look(page, eval, &folder.join("eval/eval.html"), "evaluation()")?;
    println!("browser: the report of eval shows all that it should, and loads nothing");
    Ok(())
}

/// Makes a report, opens it, and waits until nothing is lacking in it, wide and narrow.
fn look(page: &mut Page, mut make: Command, file: &Path, lacking: &str) -> Result<(), String> {
    // One thread is enough for the page.
    make.args(["--threads", "1", "--base-ns", "100", "--quiet"]);
    let out = make.stdin(Stdio::null()).output();
    let out = out.map_err(|error| format!("{make:?}: {error}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{make:?}: {said}"));
    }
    open(page, &format!("file://{}", file.display()))?;
    page.evaluate(CHECKS)?;
    for width in [320, 1280] {
        super::resize(page, width)?;
        wait(page, lacking, str::is_empty)?;
    }
    match page.errors.first() {
        None => Ok(()),
        Some(error) => Err(format!("the browser's console: {error}")),
    }
}
