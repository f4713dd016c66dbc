//! Programs as packages of Debian, which apt fetches into the target folder.
//!
//! apt runs with folders of its own and an empty list of installed packages, so it fetches all that
//! a program needs, down to the C library; nothing is installed. The mirror is the one that this
//! machine's apt is configured with, asked for another release.
//!
//! Invariants: what is unpacked was checked by apt against the archive's signature; `/etc/apt`,
//! `/var/lib/apt` and `/boot` are not written to; nothing is fetched that is there already.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exec;

/// The Debian release of the packages.
pub const SUITE: &str = "bookworm";
/// Newer packages for that release.
pub const BACKPORTS: &str = "bookworm-backports";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Names of releases, by which an archive of Debian is recognised.
const RELEASES: [&str; 5] = ["bookworm", "trixie", "forky", "stable", "sid"];

/// Starts a program of a folder of packages in place of the shell.
const LAUNCHER: &str = r#"#!/bin/sh
here=$(dirname "$0")
libraries=$here/lib/x86_64-linux-gnu:$here/usr/lib/x86_64-linux-gnu
export PYTHONHOME="$here/usr" PYTHONPATH="$here/usr/lib/python3/dist-packages"
exec "$here/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$libraries" \
    --argv0 PROGRAM "$here/usr/bin/PROGRAM" "$@"
"#;

/// A script in a folder of packages that starts a program there with the loader and the libraries
/// beside it.
pub fn launcher(folder: &Path, program: &str) -> Result<PathBuf, String> {
    let launcher = folder.join(format!("start-{program}"));
    let written = fs::write(&launcher, LAUNCHER.replace("PROGRAM", program))
        .and_then(|()| fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", launcher.display()))?;
    Ok(launcher)
}

/// A folder of packages, below the target folder.
pub struct Packages {
    folder: PathBuf,
    mirrors: Vec<String>,
    updated: Cell<bool>,
}

impl Packages {
    /// # Errors
    /// Why this machine can't fetch packages of Debian, and has none fetched earlier.
    pub fn new(root: &Path, folder: &str) -> Result<Self, String> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("the programs it needs are fetched for Linux on x86-64".into());
        }
        for program in ["apt-get", "apt-cache", "dpkg"] {
            if !exec::is_installed(program) {
                return Err(format!(
                    "{program} is not installed, which fetches programs"
                ));
            }
        }
        Ok(Packages {
            folder: exec::target_dir(root).join(folder),
            mirrors: mirrors()?,
            updated: Cell::new(false),
        })
    }

    /// The folder `name` with the programs and all their dependencies, fetched unless it exists.
    pub fn programs(&self, name: &str, suite: &str, packages: &[&str]) -> Result<PathBuf, String> {
        self.unpacked(name, |apt, archives| {
            let mut install = self.apt("apt-get", apt);
            install
                .args(["install", "--yes", "--download-only"])
                .args(["--target-release", suite])
                .args(packages)
                .arg("-o")
                .arg(format!("Dir::Cache::archives={}", archives.display()));
            quietly(install)
        })
    }

    /// The folder `name` with one package without its dependencies, fetched unless it exists. The
    /// package is the first dependency of `alias`.
    pub fn newest(&self, name: &str, suite: &str, alias: &str) -> Result<PathBuf, String> {
        self.unpacked(name, |apt, archives| {
            let package = self.first_dependency(apt, suite, alias)?;
            let mut download = self.apt("apt-get", apt);
            download
                .args(["download", "--target-release", suite, &package])
                .current_dir(archives);
            quietly(download)
        })
    }

    fn first_dependency(&self, apt: &Path, suite: &str, alias: &str) -> Result<String, String> {
        let mut show = self.apt("apt-cache", apt);
        show.args(["depends", "--target-release", suite, alias]);
        let output = exec::ended(&mut show)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "));
        name.map(String::from)
            .ok_or_else(|| format!("the mirror has no {alias} in {suite}"))
    }

    /// The folder `name` with all that `fetch` puts into a folder of packages. It exists completely
    /// or not at all.
    fn unpacked(
        &self,
        name: &str,
        fetch: impl FnOnce(&Path, &Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let there = self.folder.join(name);
        if there.is_dir() {
            return Ok(there);
        }
        let apt = self.update()?;
        println!("fetching packages of Debian for {name}");
        let archives = self.folder.join(format!("{name}.packages"));
        let unfinished = self.folder.join(format!("{name}.unfinished"));
        for folder in [&archives, &unfinished] {
            let _ = fs::remove_dir_all(folder);
        }
        exec::create(&archives.join("partial"))?;
        exec::create(&unfinished)?;
        fetch(&apt, &archives)?;
        let packages = fs::read_dir(&archives).map_err(|error| error.to_string())?;
        let packages = packages.flatten().map(|entry| entry.path());
        for package in packages.filter(|path| path.extension().is_some_and(|it| it == "deb")) {
            let mut unpack = Command::new("dpkg");
            unpack.arg("--extract").arg(package).arg(&unfinished);
            quietly(unpack)?;
        }
        let _ = fs::remove_dir_all(&archives);
        fs::rename(&unfinished, &there).map_err(|error| format!("{}: {error}", there.display()))?;
        Ok(there)
    }

    /// apt's own folder, with its lists fetched once a run.
    fn update(&self) -> Result<PathBuf, String> {
        let apt = self.folder.join("apt");
        if self.updated.get() {
            return Ok(apt);
        }
        exec::create(&apt.join("state/lists/partial"))?;
        exec::create(&apt.join("cache/archives/partial"))?;
        let write = |name: &str, text: &str| {
            fs::write(apt.join(name), text).map_err(|error| format!("{name}: {error}"))
        };
        write("status", "")?;
        let mut why = String::new();
        for mirror in &self.mirrors {
            write("sources.list", &sources(mirror))?;
            let mut update = self.apt("apt-get", &apt);
            update.args(["update", "-o", "APT::Update::Error-Mode=any"]);
            match quietly(update) {
                Ok(()) => {
                    self.updated.set(true);
                    return Ok(apt);
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn apt(&self, program: &str, apt: &Path) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| apt.join(name).display().to_string();
        for (option, value) in [
            ("Dir::State", at("state")),
            ("Dir::State::status", at("status")),
            ("Dir::Cache", at("cache")),
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::Etc::preferencesparts", "/dev/null".into()),
            ("APT::Architecture", "amd64".into()),
            ("APT::Install-Recommends", "0".into()),
            // The user that apt usually becomes may not write here.
            ("APT::Sandbox::User", String::new()),
            // Its locks protect installed packages, and none is installed.
            ("Debug::NoLocking", "1".into()),
        ] {
            command.arg("-o").arg(format!("{option}={value}"));
        }
        command
    }
}

/// The mirrors of Debian that this machine's apt is configured with.
fn mirrors() -> Result<Vec<String>, String> {
    let format = "$(RELEASE) $(COMPONENT) $(REPO_URI)";
    let mut list = Command::new("apt-get");
    list.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let output = exec::ended(&mut list)?;
    let found = mirrors_of(&String::from_utf8_lossy(&output.stdout));
    match found.is_empty() {
        true => Err("apt is not configured with a mirror of Debian".into()),
        false => Ok(found),
    }
}

fn mirrors_of(targets: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in targets.lines() {
        let mut words = line.split_whitespace();
        let (release, component, address) = (words.next(), words.next(), words.next());
        let is_debian = release.is_some_and(|name| RELEASES.contains(&name));
        if let (true, Some("main"), Some(address)) = (is_debian, component, address)
            && !found.iter().any(|known| known == address)
        {
            found.push(address.into());
        }
    }
    found
}

/// The lists of packages, and nothing else, of both releases.
fn sources(mirror: &str) -> String {
    let signed = match Path::new(KEYRING).is_file() {
        true => format!("signed-by={KEYRING} "),
        // Then apt uses its own trusted keys.
        false => String::new(),
    };
    [SUITE, BACKPORTS]
        .map(|suite| format!("deb [{signed}target=Packages] {mirror} {suite} main\n"))
        .concat()
}

/// Runs a program without showing its output. If it fails, the error has the last line, which is
/// the reason.
fn quietly(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    let output = exec::ended(&mut command)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut errors = said.lines().filter(|line| line.starts_with("E:"));
    let why = errors
        .next_back()
        .or(said.lines().last())
        .unwrap_or("without a message");
    Err(format!("{name} ended with {}: {why}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_an_archive_with_a_release_of_debian_each_once() {
        let targets = "bookworm main http://mirror.example/debian/\n\
                       bookworm-updates main http://mirror.example/debian/\n\
                       bookworm stable https://other.example/linux/debian/\n\
                       nodistro main https://node.example/node_20.x/\n\
                       bookworm main http://mirror.example/debian/\n";
        assert_eq!(mirrors_of(targets), ["http://mirror.example/debian/"]);
        assert!(mirrors_of("").is_empty());
    }

    #[test]
    fn both_releases_are_listed_and_signatures_are_asked_for() {
        let text = sources("http://mirror.example/debian/");
        let suites: Vec<_> = text
            .lines()
            .filter_map(|line| line.split(' ').rev().nth(1))
            .collect();
        assert_eq!(suites, ["bookworm", "bookworm-backports"]);
        assert!(!text.contains("trusted=yes"));
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'E: no such release' >&2; echo after >&2; exit 3",
        ]);
        let why = quietly(command).unwrap_err();
        assert!(why.contains("E: no such release"), "{why}");
    }
}
