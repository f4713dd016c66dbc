//! The content of the guest: busybox, the `timberline` of this checkout with its libraries, kernel
//! modules, and the script to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::initramfs::Initramfs;
use super::kernel::Kernel;
use crate::exec;

const INIT: &str = include_str!("guest/init.sh");

/// The program to check, built, and without its debug information.
pub struct Program {
    path: PathBuf,
    libraries: Vec<String>,
}

impl Program {
    /// Builds it.
    pub fn build(root: &Path, release: bool, features: &[&str]) -> Result<Self, String> {
        let built = exec::timberline(root, release, features)?;
        let profile = if release { "release" } else { "debug" };
        let folder = exec::target_dir(root).join(super::FOLDER);
        let path = folder.join(format!("timberline-{profile}"));
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&path).arg(&built);
        exec::succeed(strip)?;
        let libraries = libraries_of(&path)?;
        Ok(Program { path, libraries })
    }
}

/// Where the libraries of a program are, the loader among them.
fn libraries_of(program: &Path) -> Result<Vec<String>, String> {
    let output = exec::ended(Command::new("ldd").arg(program))?;
    Ok(paths_in(&String::from_utf8_lossy(&output.stdout)))
}

fn paths_in(said: &str) -> Vec<String> {
    let words = said.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(String::from)
        .collect()
}

/// The archive that a machine boots with.
pub fn archive(
    busybox: &Path,
    program: &Program,
    kernel: &Kernel,
    modules: &[&str],
    script: &str,
) -> Result<Vec<u8>, String> {
    let mut files = Initramfs::new();
    files.file("init", INIT.as_bytes());
    files.file("run.sh", script.as_bytes());
    files.copy("bin/busybox", busybox)?;
    files.copy("bin/timberline", &program.path)?;
    for library in &program.libraries {
        files.copy(library.trim_start_matches('/'), Path::new(library))?;
    }
    for folder in ["proc", "sys", "dev", "tmp"] {
        files.folder(folder);
    }
    for (index, module) in modules.iter().enumerate() {
        let name = module.rsplit('/').next().unwrap_or(module);
        let of = kernel.modules.join("kernel/drivers").join(module);
        let found = ["ko.xz", "ko"]
            .into_iter()
            .find(|ending| of.with_extension(ending).is_file());
        let ending = found.ok_or_else(|| format!("the kernel has no module {}", of.display()))?;
        let file = format!("modules/{index:02}-{name}.{ending}");
        files.copy(&file, &of.with_extension(ending))?;
    }
    Ok(files.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let said = "\tlinux-vdso.so.1 (0x00007f9c)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f9d)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x00007f9e)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(paths_in(said), expected);
        assert!(paths_in("\tstatically linked\n").is_empty());
    }
}
