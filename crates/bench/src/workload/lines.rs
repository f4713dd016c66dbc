//! Byte-string keys from a text file.
//!
//! The key of an id is a line of the file; after the last line, each line with `#1` appended, then
//! `#2`, …
//!
//! Invariant: different ids have different keys, for any number of ids.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

/// The longest line that becomes a key, bytes: with a number appended, it stays within the 256
/// bytes that the crate `masstree` supports. One in 8,000 of our URLs is longer.
const LONGEST_LINE: usize = 230;

/// Byte-string keys: the lines of a file.
#[derive(Clone, Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// The end of each line; the first begins at 0.
    ends: Vec<u32>,
    longest: usize,
}

impl Lines {
    /// Reads a file.
    ///
    /// # Errors
    /// One line that names the file: it is unreadable, or has no usable line.
    pub fn read(path: &Path) -> Result<Lines, String> {
        let text = std::fs::read(path).map_err(|error| {
            let path = path.display();
            format!("can't read the keys in {path}: {error}")
        })?;
        let lines = Lines::of(&text);
        if lines.ends.is_empty() {
            return Err(format!("{} has no line usable as a key", path.display()));
        }
        Ok(lines)
    }

    /// The distinct lines of a text in byte order. Skips empty lines; lines above 230 bytes; and
    /// lines that end in `#` and a number, because they could equal a line with a number appended.
    pub fn of(text: &[u8]) -> Lines {
        let lines: BTreeSet<&[u8]> = text
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| (1..=LONGEST_LINE).contains(&line.len()) && !is_numbered(line))
            .collect();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut longest = 0;
        for line in lines {
            bytes.extend_from_slice(line);
            ends.push(bytes.len() as u32);
            longest = longest.max(line.len());
        }
        Lines {
            bytes,
            ends,
            longest,
        }
    }

    /// Appends the key of an id.
    #[inline]
    pub fn push_key(&self, id: u64, bytes: &mut Vec<u8>) {
        let lines = self.ends.len() as u64;
        let (round, at) = (id / lines, id % lines);
        bytes.extend_from_slice(self.line(at as usize));
        if round > 0 {
            write!(bytes, "#{round}").expect("a vector takes what is written");
        }
    }

    /// The maximum length of a key, bytes.
    pub fn longest_key(&self) -> usize {
        // A 64-bit number has at most 20 digits.
        self.longest + 1 + 20
    }

    fn line(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from as usize..self.ends[at] as usize]
    }
}

fn is_numbered(line: &[u8]) -> bool {
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    digits > 0 && line[..line.len() - digits].ends_with(b"#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(lines: &Lines, ids: std::ops::Range<u64>) -> Vec<Vec<u8>> {
        let key = |id| {
            let mut bytes = Vec::new();
            lines.push_key(id, &mut bytes);
            bytes
        };
        ids.map(key).collect()
    }

    #[test]
    fn no_two_ids_have_the_same_key() {
        let keys = keys_of(&Lines::of(b"a\nb\na1\na#\n"), 0..10_000);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn lines_come_once_and_then_with_numbers() {
        let text = format!("beta\r\nalpha\n\nbeta\nx#7\n{}\n", "x".repeat(231));
        let lines = Lines::of(text.as_bytes());
        let keys = keys_of(&lines, 0..5);
        let expected = ["alpha", "beta", "alpha#1", "beta#1", "alpha#2"];
        assert_eq!(keys, expected.map(|key| key.as_bytes().to_vec()));
        assert!(lines.longest_key() >= 7);
    }
}
