//! Unpacks a manifest into a directory that stands in for `/`.
//!
//! One `path<TAB>content` a line; `\n` in the content is a newline and `\\` a backslash; a path
//! that ends in `/` is a directory; lines that start with `#` are comments. `record.sh` writes
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An unpacked machine; gone when dropped.
pub struct Machine(PathBuf);

impl Machine {
    pub fn root(&self) -> &Path {
        &self.0
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What is left over is only a temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The machine of `topologies/<name>.tsv`.
pub fn machine(name: &str) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/topologies/{name}.tsv"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let head = text.lines().next().unwrap_or_default();
    assert!(
        head.starts_with("# Recorded ") || head.starts_with("# Composed, not recorded"),
        "{} opens with whether it was recorded or composed",
        path.display()
    );
    unpack(&text)
}

/// The machine of a manifest's text.
pub fn unpack(manifest: &str) -> Machine {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "timberline-topology-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Relaxed)
    );
    let machine = Machine(std::env::temp_dir().join(name));
    fs::create_dir_all(machine.root()).unwrap();
    for line in manifest
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (path, content) = line
            .split_once('\t')
            .unwrap_or_else(|| panic!("no tab in {line:?}"));
        let target = machine.root().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(&target).unwrap();
        } else {
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, unescape(content) + "\n").unwrap();
        }
    }
    machine
}

fn unescape(content: &str) -> String {
    // Backslashes first, so that an escaped one before an `n` is not a newline.
    let pieces: Vec<String> = content
        .split(r"\\")
        .map(|piece| piece.replace(r"\n", "\n"))
        .collect();
    pieces.join(r"\")
}
