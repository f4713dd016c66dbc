//! The guest's files: an archive of the format that the kernel unpacks at boot (cpio, `newc`; the
//! kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`), written here so that no
//! program is needed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive that grows.
pub struct Initramfs {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Initramfs {
    pub fn new() -> Self {
        Initramfs {
            bytes: Vec::new(),
            folders: BTreeSet::new(),
            entries: 0,
        }
    }

    /// A file that may be run, at `path` without its leading slash.
    pub fn file(&mut self, path: &str, contents: &[u8]) {
        self.folders_of(path);
        self.entry(path, PROGRAM, contents);
    }

    /// The same with the contents of a file of this machine.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<(), String> {
        let contents = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.file(path, &contents);
        Ok(())
    }

    /// An empty folder.
    pub fn folder(&mut self, path: &str) {
        self.folders_of(&format!("{path}/"));
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }

    fn folders_of(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            if self.folders.insert(path[..at].into()) {
                self.entry(&path[..at], FOLDER, b"");
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let (inode, length, name) = (self.entries, contents.len() as u32, path.len() as u32 + 1);
        // inode, mode, owner, group, links, time, length, four device numbers, length of the name,
        // checksum
        let fields = [inode, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name, 0];
        let header: String = fields.iter().map(|field| format!("{field:08X}")).collect();
        self.bytes.extend(format!("070701{header}{path}\0").bytes());
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_once() {
        let mut archive = Initramfs::new();
        archive.file("bin/a", b"abc");
        archive.file("bin/b", b"");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("bin\0") < at("bin/a\0") && at("bin/a\0") < at("bin/b\0"));
        assert_eq!(text.matches("bin\0").count(), 1);
        assert_eq!(bytes.len() % 4, 0);
        // Each header begins at a multiple of four, or the kernel loses its way.
        let headers: Vec<_> = text.match_indices("070701").map(|(at, _)| at % 4).collect();
        assert_eq!(headers, [0; 4]);
    }
}
