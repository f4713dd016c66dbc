//! Small temporary files that tests read as traces.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The little-endian u32 numbers 7, 5, 7, 9, compressed by `xz`.
#[rustfmt::skip]
pub const XZ: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x00, 0x0f, 0x00, 0x0d, 0x5d, 0x00, 0x03,
    0x80, 0x36, 0xc0, 0x25, 0xb8, 0x7c, 0x26, 0x23, 0x35, 0x1c, 0xe0, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xa0, 0xd1, 0x68, 0x1a, 0x50, 0x8e, 0xdb, 0xc6, 0x00, 0x01, 0x29, 0x10, 0xa4, 0x3a, 0x77, 0x79,
    0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
];

/// A file in its own folder, removed on drop.
pub struct Sample {
    folder: PathBuf,
    path: PathBuf,
}

impl Sample {
    /// A file named `name` with these contents.
    pub fn new(name: &str, contents: &[u8]) -> Sample {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "timberline-trace-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Relaxed)
        );
        let folder = std::env::temp_dir().join(unique);
        fs::create_dir(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, contents).unwrap();
        Sample { folder, path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // A leftover folder is no reason to fail the test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
