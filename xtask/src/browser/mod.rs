//! `cargo xtask browser`: all pages in a real browser. It makes and inspects the reports of `bench`
//! and `eval`, then starts a live run and inspects its page while it changes.
//!
//! Invariants: nothing is installed, and all that is fetched or written lies in the target folder;
//! no time is asserted; without a browser, nothing counts as checked.

mod chromium;
mod devtools;
mod reports;
mod watched;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::packages::Packages;
use crate::{Failure, exec};
use chromium::Chromium;
use devtools::Page;
use watched::{PLACEMENTS, Run};

/// Below the target folder, where all this is.
const FOLDER: &str = "browser";
/// What is looked at.
const CHECKS: &str = include_str!("checks.js");
/// What changes with time.
const PARTS: [&str; 7] = [
    "#phase",
    "#rows",
    "#throughput",
    "#levels",
    "#heat",
    "#budget",
    "#moves",
];
/// The timeout of waits that should take seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command: a machine that can't have a browser is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let packages = Packages::new(root, FOLDER);
    let browser = |packages| Chromium::get(&packages, &exec::target_dir(root).join(FOLDER));
    let chromium = packages.and_then(browser).map_err(Failure::Lacking)?;
    check(root, &chromium).map_err(Failure::Check)
}

fn check(root: &Path, chromium: &Chromium) -> Result<(), String> {
    let program = exec::timberline(root, false, &[])?;
    let folder = exec::target_dir(root).join(FOLDER);
    let mut page = Page::new(chromium.start()?)?;
    reports::check(&mut page, &program, &folder)?;
    let mut run = Run::start(&program, &folder)?;
    load(&mut page, &run.url)?;
    println!("browser: the page shows all that it should");
    look(&mut page)?;
    if let Some(error) = page.errors.first() {
        return Err(format!("the browser's console: {error}"));
    }
    println!("browser: the console has no errors");
    find_planted_bug(&mut page)?;

    load(&mut page, &format!("{}?again", run.url))?;
    run.end();
    let state = "one('#state').textContent";
    wait(&mut page, state, |it| it.contains("over"))?;
    match page.evaluate(&lacking())? {
        lacking if lacking.is_empty() => {
            println!("browser: the page says that the run is over, and keeps its figures");
            Ok(())
        }
        lacking => Err(format!("when the run is over, the page loses {lacking}")),
    }
}

/// Loads the page of a run, and waits until all is there.
fn load(page: &mut Page, url: &str) -> Result<(), String> {
    open(page, url)?;
    page.evaluate(CHECKS)?;
    wait(page, &lacking(), str::is_empty)
}

fn open(page: &mut Page, url: &str) -> Result<(), String> {
    page.open(url)?;
    let loaded = format!("{url} complete");
    let state = "`${location.href} ${document.readyState}`";
    wait(page, state, |it| it == loaded)
}

/// Makes the window as wide as this, CSS pixels.
fn resize(page: &mut Page, width: u32) -> Result<(), String> {
    let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    page.call("Emulation.setDeviceMetricsOverride", size)?;
    Ok(())
}

fn lacking() -> String {
    format!("lacking('{PLACEMENTS}')")
}

/// Inspects the page as it changes: over time, by the user's choices, with the window's size, and
/// with the preferred colours.
fn look(page: &mut Page) -> Result<(), String> {
    for part in PARTS {
        let now = format!("one('{part}').innerHTML");
        let before = page.evaluate(&now)?;
        wait(page, &now, |it| it != before)?;
    }
    println!("browser: each part of the page changes with time");

    for (placement, part, text) in [
        ("sidle", "#shown", "sidle"),
        ("sidle", "#budget text", "high watermark 95 %"),
        ("interleave", "#heat-note", "tracks no heat"),
        ("memtis", "#levels text", "pages"),
    ] {
        page.evaluate(&format!("choose('{placement}')"))?;
        let texts = format!("texts('{part}').join()");
        wait(page, &texts, |it| it.contains(text))?;
    }
    println!("browser: the chosen placement is shown");

    for width in [320, 1280] {
        resize(page, width)?;
        wait(page, "overflow()", |it| it == "0")?;
    }
    let light = page.evaluate("paper()")?;
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    page.call("Emulation.setEmulatedMedia", dark)?;
    wait(page, "paper()", |it| it != light)?;
    println!("browser: narrow and wide, light and dark");
    Ok(())
}

/// Removes a part of the page, which the checks must notice: the part is missing, and an exception
/// follows.
fn find_planted_bug(page: &mut Page) -> Result<(), String> {
    page.evaluate("one('#budget').remove(), ''")?;
    wait(page, &lacking(), |it| it.contains("the budget"))?;
    // Events are heard with answers.
    let begun = Instant::now();
    while page.errors.is_empty() {
        page.evaluate("''")?;
        if begun.elapsed() > PATIENCE {
            return Err("the exception that follows a missing part was not heard".into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    println!("browser: a part that was taken away is missed, and the exception heard");
    Ok(())
}

/// Waits until an expression has the expected value.
fn wait(page: &mut Page, expression: &str, is_wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let value = page.evaluate(expression)?;
        if is_wanted(&value) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            let errors = page.errors.join("; ");
            return Err(format!(
                "`{expression}` stays `{value:.300}`; errors in the console: {errors}"
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
