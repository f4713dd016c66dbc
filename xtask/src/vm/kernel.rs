//! The kernels that machines boot.

use std::fs;
use std::path::{Path, PathBuf};

use crate::packages::{BACKPORTS, Packages, SUITE};

/// The package that refers to the newest kernel for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";

/// A kernel of Debian bookworm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// 6.1: no DAMON, one memory tier whatever firmware says.
    Old,
    /// 6.12, of the backports.
    New,
}

impl Release {
    pub fn suite(self) -> &'static str {
        match self {
            Release::Old => SUITE,
            Release::New => BACKPORTS,
        }
    }
}

/// A kernel: its image, and the folder of its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub image: PathBuf,
    pub modules: PathBuf,
}

impl Kernel {
    /// A kernel, fetched unless it is there.
    pub fn get(packages: &Packages, release: Release) -> Result<Self, String> {
        let suite = release.suite();
        let folder = packages.newest(&format!("kernel-{suite}"), suite, KERNEL)?;
        let named = |within: &str, prefix: &str| {
            let entries = fs::read_dir(folder_of(&folder, within)).ok()?;
            let mut paths = entries.flatten().map(|entry| entry.path());
            paths.find(|path| {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().starts_with(prefix)
            })
        };
        match (named("boot", "vmlinuz-"), named("lib/modules", "")) {
            (Some(image), Some(modules)) => Ok(Kernel { image, modules }),
            _ => Err(format!(
                "the package of a kernel in {} has none",
                folder.display()
            )),
        }
    }
}

fn folder_of(root: &Path, name: &str) -> PathBuf {
    match root.join(name) {
        folder if folder.is_dir() => folder,
        _ => root.join("usr").join(name),
    }
}
