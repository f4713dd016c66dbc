//! Running other programs: the same cargo that runs us, with its output passed straight through.
//!
//! Invariant: a failure is one line that names the command as a person would type it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// What the gate compiles: all but the comparison with many other maps. Every step selects all of
/// it, whatever it runs: cargo unifies the features of packages built together, so a step that
/// selects one package compiles its dependencies anew.
pub const CRATES: &str = "--workspace --exclude bench-peers";

/// A `cargo` command started in `root`, with the words of `args`.
///
/// The cargo that started us is in `CARGO`; taking it rather than the one on the path keeps one
/// toolchain for the whole gate. Without incremental compilation, unless the caller asks for it: to
/// compile all from nothing takes a fifth less of the compiler's time, and half the disk.
pub fn cargo(root: &Path, args: &str) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(args.split_whitespace()).current_dir(root);
    if env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs to the end and turns anything but success into one line that names the command.
pub fn succeed(mut command: Command) -> Result<(), String> {
    let shown = show(&command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` could not be started: {error}")),
    }
}

/// As [`succeed`], and returns the program's output.
pub fn output(mut command: Command) -> Result<String, String> {
    command.stderr(Stdio::inherit());
    let done = ended(&mut command)?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into()),
        false => Err(format!("`{}` ended with {}", show(&command), done.status)),
    }
}

/// Runs to the end, with success or not, and collects the output.
pub fn ended(command: &mut Command) -> Result<Output, String> {
    let output = command.output();
    output.map_err(|error| format!("`{}` could not be started: {error}", show(command)))
}

/// Waits for a program to end, and ends it when the time is over; then there is no status.
pub fn wait(mut program: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            program.kill()?;
            program.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Adds `flags` to a variable of compiler flags, and keeps its old ones.
pub fn add_flags(command: &mut Command, variable: &str, flags: &str) {
    let joined = match env::var(variable) {
        Ok(before) if !before.trim().is_empty() => format!("{before} {flags}"),
        _ => flags.to_string(),
    };
    command.env(variable, joined);
}

/// The target folder of cargo.
pub fn target_dir(root: &Path) -> PathBuf {
    // A relative CARGO_TARGET_DIR is meant from where cargo runs, which is the root.
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// A folder below the target folder, which is made unless it is there.
pub fn folder(root: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = target_dir(root).join(name);
    create(&folder).map(|()| folder)
}

/// Makes a folder and those above it.
pub fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Builds the program `timberline`, and says where it is. In the development profile, without
/// features, it is the one that the tests run, and so built already.
pub fn timberline(root: &Path, release: bool, features: &[&str]) -> Result<PathBuf, String> {
    let mut build = match release || !features.is_empty() {
        true => cargo(root, "build -p timberline-cli"),
        false => cargo(root, &format!("test {CRATES} --test cli --no-run")),
    };
    build.args(release.then_some("--release"));
    if !features.is_empty() {
        build.args(["--features", &features.join(",")]);
    }
    succeed(build)?;
    let profile = if release { "release" } else { "debug" };
    Ok(target_dir(root).join(profile).join("timberline"))
}

/// Whether `program` can be started, found by asking for its version.
pub fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
}

/// The command as a person would type it: the variables it adds, the program's name, its arguments.
pub fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(key, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={value:?}", key.to_string_lossy()))
    });
    let mut program = Path::new(command.get_program());
    if program.ends_with("cargo") {
        program = Path::new("cargo");
    }
    let arguments = command.get_args().map(|arg| arg.to_string_lossy().into());
    variables
        .chain([program.display().to_string()])
        .chain(arguments)
        .collect::<Vec<String>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["doc", "--no-deps"]).env("FLAGS", "-D x");
        assert_eq!(show(&command), "FLAGS=\"-D x\" cargo doc --no-deps");
    }

    #[test]
    fn what_a_program_prints_is_returned() {
        let mut echo = Command::new("echo");
        echo.arg("seven");
        assert_eq!(output(echo), Ok("seven\n".into()));
    }

    #[test]
    fn failures_name_the_command() {
        let said = succeed(Command::new("no-such-program-here")).unwrap_err();
        assert!(said.starts_with("`no-such-program-here` could not be started"));
        let said = succeed(Command::new("false")).unwrap_err();
        assert!(said.starts_with("`false` ended with"), "{said}");
        assert!(succeed(Command::new("true")).is_ok());
        let said = output(Command::new("false")).unwrap_err();
        assert!(said.starts_with("`false` ended with"), "{said}");
        assert!(!is_installed("no-such-program-here"));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let sleep = |seconds: &str| Command::new("sleep").arg(seconds).spawn().unwrap();
        assert!(
            wait(sleep("0"), Duration::from_secs(60))
                .unwrap()
                .unwrap()
                .success()
        );
        let status = wait(sleep("600"), Duration::from_millis(50)).unwrap();
        assert_eq!(status, None);
    }
}
