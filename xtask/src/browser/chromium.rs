//! Chromium without a screen, as a package of Debian in the target folder, run with the libraries
//! from there.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::packages::{Packages, SUITE};

/// Starts the program that lies below its own folder, with the loader and the libraries from there.
/// Chromium starts itself by this again for its other processes.
const LAUNCHER: &str = r#"#!/bin/sh
here=$(dirname "$0")
libraries=$here/lib/x86_64-linux-gnu:$here/usr/lib/x86_64-linux-gnu
exec "$here/usr/lib/chromium/loader" --library-path "$libraries:$here/usr/lib/x86_64-linux-gnu/pulseaudio" \
    "$here/usr/lib/chromium/chromium-headless-shell" "$@"
"#;

pub struct Chromium {
    launcher: PathBuf,
    profile: PathBuf,
}

impl Chromium {
    /// Fetched unless it is there.
    ///
    /// # Errors
    /// Why this machine can't fetch it.
    pub fn get(packages: &Packages, folder: &Path) -> Result<Self, String> {
        let wanted = ["chromium-headless-shell", "fonts-dejavu-core"];
        let root = packages.programs("chromium", SUITE, &wanted)?;
        let launcher = root.join("launcher");
        if !launcher.exists() {
            prepare(&root, &launcher)
                .map_err(|error| format!("Chromium in {}: {error}", root.display()))?;
        }
        let profile = folder.join("profile");
        Ok(Chromium { launcher, profile })
    }

    /// Starts it with a new profile. It listens to commands on its standard input and answers on
    /// its standard output.
    pub fn start(&self) -> Result<Child, String> {
        // A leftover of an earlier run. If it can't be removed, the browser reports it.
        let _ = fs::remove_dir_all(&self.profile);
        let mut shell = Command::new("sh");
        shell
            // It speaks on descriptors 3 and 4.
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1"#])
            .arg(&self.launcher)
            .args(["--headless", "--remote-debugging-pipe", "--no-zygote"])
            // No sandbox works everywhere, as root and in containers; the page is our own.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .arg(format!(
                "--browser-subprocess-path={}",
                self.launcher.display()
            ))
            .arg(format!("--user-data-dir={}", self.profile.display()))
            .env("HOME", &self.profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        shell
            .spawn()
            .map_err(|error| format!("Chromium could not be started: {error}"))
    }
}

/// Puts the launcher beside the unpacked files, and the loader where Chromium expects its own
/// program: it looks for its files beside that.
fn prepare(root: &Path, launcher: &Path) -> std::io::Result<()> {
    fs::copy(
        root.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
        root.join("usr/lib/chromium/loader"),
    )?;
    // Under another name first, so that it is there as a whole or not at all.
    let unfinished = root.join("launcher.unfinished");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o755);
    options.open(&unfinished)?.write_all(LAUNCHER.as_bytes())?;
    fs::rename(unfinished, launcher)
}
