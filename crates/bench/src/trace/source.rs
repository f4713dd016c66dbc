//! A trace's bytes, from a plain file or one compressed with xz.
//!
//! The first bytes of a file tell whether it is an xz file, whatever its name; a file whose name
//! ends in `.xz` must be one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;

use super::error::TraceError;

const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
/// The memory limit for the decoder of a compressed file, KiB. `xz -9` needs 64 MiB.
const XZ_MEMORY_KIB: u32 = 1 << 20;

/// An open trace with its name for messages.
pub(super) struct Source {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    compressed: bool,
}

impl Source {
    pub fn open(path: &Path) -> Result<Source, TraceError> {
        let cannot_open = |error| TraceError::in_file(path, format!("cannot be opened: {error}"));
        let file = File::open(path).map_err(cannot_open)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let compressed = file.fill_buf().map_err(cannot_open)?.starts_with(XZ_MAGIC);
        if !compressed
            && path
                .extension()
                .is_some_and(|suffix| suffix.eq_ignore_ascii_case("xz"))
        {
            return Err(TraceError::in_file(
                path,
                "is named .xz but does not begin like an xz file",
            ));
        }
        let reader: Box<dyn BufRead> = if compressed {
            let decoder = XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB);
            Box::new(BufReader::with_capacity(1 << 16, decoder))
        } else {
            Box::new(file)
        };
        Ok(Source {
            path: path.to_owned(),
            reader,
            compressed,
        })
    }

    /// Appends the next line to `line`, including its end. Returns whether there was one.
    pub fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool, TraceError> {
        let read = self.reader.read_until(b'\n', line);
        read.map(|bytes| bytes > 0)
            .map_err(|error| self.unreadable(error))
    }

    /// Appends the rest.
    pub fn read_all(&mut self, bytes: &mut Vec<u8>) -> Result<(), TraceError> {
        let read = self.reader.read_to_end(bytes);
        read.map(|_| ()).map_err(|error| self.unreadable(error))
    }

    /// Appends up to `most` bytes; fewer only at the end.
    pub fn read_some(&mut self, most: u64, bytes: &mut Vec<u8>) -> Result<(), TraceError> {
        let read = self.reader.by_ref().take(most).read_to_end(bytes);
        read.map(|_| ()).map_err(|error| self.unreadable(error))
    }

    /// An error of this trace, with the text `what`.
    pub fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::in_file(&self.path, what)
    }

    fn unreadable(&self, error: io::Error) -> TraceError {
        let how = if self.compressed {
            "decompressed"
        } else {
            "read"
        };
        self.error(format!("cannot be {how}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::sample::{self, Sample};

    fn contents(path: &Path) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        Source::open(path)?.read_all(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn plain_and_compressed_files_are_read_alike() {
        let expected: Vec<u8> = [7u32, 5, 7, 9]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        assert_eq!(
            contents(Sample::new("plain.u32", &expected).path()).unwrap(),
            expected
        );
        assert_eq!(
            contents(Sample::new("a.u32.xz", sample::XZ).path()).unwrap(),
            expected
        );
        assert_eq!(
            contents(Sample::new("misnamed.u32", sample::XZ).path()).unwrap(),
            expected
        );
    }

    #[test]
    fn two_compressed_streams_in_a_row_are_one_trace() {
        let twice = Sample::new("twice.xz", &sample::XZ.repeat(2));
        assert_eq!(contents(twice.path()).unwrap().len(), 32);
    }

    #[test]
    fn a_missing_file_and_a_folder_are_named() {
        let error = contents(Path::new("no/such.u32")).unwrap_err().to_string();
        assert!(
            error.starts_with("trace `no/such.u32`: cannot be opened: "),
            "{error}"
        );
        assert!(contents(Path::new(".")).is_err());
    }

    #[test]
    fn a_name_that_promises_xz_must_keep_it() {
        let sample = Sample::new("plain.csv.xz", b"lbn\n1\n");
        let error = contents(sample.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("is named .xz but does not begin like an xz file"),
            "{error}"
        );
    }

    #[test]
    fn no_damage_to_a_compressed_file_goes_unseen_or_panics() {
        for cut in 6..sample::XZ.len() {
            let error = contents(Sample::new("cut.xz", &sample::XZ[..cut]).path()).unwrap_err();
            assert!(
                error.to_string().contains("cannot be decompressed: "),
                "{error}"
            );
        }
        for at in 0..sample::XZ.len() {
            let mut bytes = sample::XZ.to_vec();
            bytes[at] ^= 0x10;
            let error = contents(Sample::new("flipped.xz", &bytes).path()).unwrap_err();
            assert_eq!(error.to_string().lines().count(), 1, "byte {at}: {error}");
        }
    }
}
