//! The installed compiler, as far as instrumented builds need it.
//!
//! Sanitizers are unstable options, so a stable compiler is told to take them (`RUSTC_BOOTSTRAP`).
//! The sanitizers' runtimes come with the compiler. The standard library's source does not, so the
//! library stays as compiled: without instrumentation.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec;

/// A compiler and where its libraries lie.
pub struct Toolchain {
    /// The default target, as in `x86_64-unknown-linux-gnu`.
    pub host: String,
    /// The folder with the standard library and what belongs to it.
    pub libraries: PathBuf,
}

impl Toolchain {
    /// Asks the compiler. An error is one line.
    pub fn ask(root: &Path) -> Result<Self, String> {
        let says = |what: &str| {
            let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            let asked = Command::new(program)
                .args(["--print", what])
                .current_dir(root)
                .output();
            match asked {
                Ok(out) if out.status.success() => {
                    Ok(String::from_utf8_lossy(&out.stdout).trim().to_string())
                }
                _ => Err(format!(
                    "the compiler does not answer `rustc --print {what}`"
                )),
            }
        };
        Ok(Toolchain {
            host: says("host-tuple")?,
            libraries: PathBuf::from(says("target-libdir")?),
        })
    }

    /// Whether a sanitizer's runtime is installed, by the short name that its file has (`asan`). An
    /// error says what is missing.
    pub fn has_runtime(&self, name: &str) -> Result<(), String> {
        let end = format!("_rt.{name}.a");
        match self.library(|file| file.ends_with(&end)) {
            Some(_) => Ok(()),
            None => Err(format!(
                "the toolchain has no `librustc…{end}` in {}",
                self.libraries.display()
            )),
        }
    }

    /// Whether the standard library of another target is installed. An error says what is missing.
    pub fn has_target(&self, target: &str) -> Result<(), String> {
        // From `lib/rustlib/HOST/lib` to its neighbour.
        let all = self.libraries.parent().and_then(Path::parent);
        match all.is_some_and(|all| all.join(target).is_dir()) {
            true => Ok(()),
            false => Err(format!(
                "the toolchain has no standard library for {target} (`rustup target add {target}`)"
            )),
        }
    }

    /// A library by its file's name.
    pub fn library(&self, is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let entries = self.libraries.read_dir().ok()?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_string());
        { paths }.find(|path| name(path).is_some_and(|name| is_it(&name)))
    }

    /// A cargo command for this host with these compiler flags, and a target folder of its own
    /// below the usual one. (With the target named, build scripts go without the flags.)
    pub fn cargo(&self, root: &Path, folder: &str, flags: &str, args: &str) -> Command {
        let (verb, rest) = args.split_once(' ').unwrap_or((args, ""));
        let mut command = exec::cargo(root, verb);
        command
            .args(["--target", &self.host, "--target-dir"])
            .arg(exec::target_dir(root).join(folder))
            .args(rest.split_whitespace())
            .env("RUSTC_BOOTSTRAP", "1");
        exec::add_flags(&mut command, "RUSTFLAGS", flags);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_compiler_answers_and_what_is_missing_is_named() {
        let toolchain = Toolchain::ask(&crate::root()).unwrap();
        assert!(toolchain.host.contains('-'), "{}", toolchain.host);
        assert!(
            toolchain
                .library(|name| name.starts_with("libstd-"))
                .is_some()
        );
        let missing = toolchain.has_runtime("nosan").unwrap_err();
        assert!(missing.contains("_rt.nosan.a"), "{missing}");
        assert_eq!(toolchain.has_target(&toolchain.host), Ok(()));
        let missing = toolchain.has_target("no-such-target").unwrap_err();
        assert!(missing.contains("rustup target add no-such-target"));
    }

    #[test]
    fn a_command_names_its_target_and_has_a_folder_of_its_own() {
        let toolchain = Toolchain {
            host: "a-b-c".into(),
            libraries: PathBuf::new(),
        };
        let command = toolchain.cargo(Path::new("/r"), "asan", "-Zx", "test --lib");
        let args: Vec<_> = command
            .get_args()
            .map(|arg| arg.to_string_lossy())
            .collect();
        assert_eq!(args[..4], ["test", "--target", "a-b-c", "--target-dir"]);
        assert!(args[4].ends_with("/asan"), "{args:?}");
        assert_eq!(args[5], "--lib");
    }
}
