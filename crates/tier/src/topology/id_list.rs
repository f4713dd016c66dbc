//! Lists of small numbers as the kernel writes them: `0-1,3`.
//!
//! Invariant: sorted, without duplicates, every id at most [`HIGHEST_ID`].

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The highest id taken: far above what Linux supports (1024 NUMA nodes, 8192 CPUs), and low
/// enough that a mistyped range cannot exhaust memory.
const HIGHEST_ID: u32 = 65_535;

/// NUMA node numbers.
pub type NodeList = IdList;
/// CPU numbers.
pub type CpuList = IdList;

/// A set of ids, printed and parsed in the kernel's list format; empty text is the empty list.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
#[serde(transparent)]
pub struct IdList(Vec<u32>);

impl IdList {
    /// The ids, ascending.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `id` is among them. Takes O(log n).
    pub fn contains(&self, id: u32) -> bool {
        self.0.binary_search(&id).is_ok()
    }
}

impl FromIterator<u32> for IdList {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut ids: Vec<u32> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        IdList(ids)
    }
}

/// A text that is not a list of ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdListError {
    text: String,
}

impl fmt::Display for IdListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a list: expected numbers up to {HIGHEST_ID} and ascending ranges, like \
             0-1,3",
            self.text.escape_default()
        )
    }
}

impl std::error::Error for IdListError {}

impl FromStr for IdList {
    type Err = IdListError;

    fn from_str(text: &str) -> Result<Self, IdListError> {
        let error = || IdListError {
            text: text.to_owned(),
        };
        let id = |digits: &str| -> Result<u32, IdListError> {
            // `u32` would also accept a sign.
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let id = digits.parse().ok().filter(|&id| plain && id <= HIGHEST_ID);
            id.ok_or_else(error)
        };
        if text.trim().is_empty() {
            return Ok(IdList::default());
        }
        let mut ids = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part
                .trim()
                .split_once('-')
                .unwrap_or((part.trim(), part.trim()));
            let (first, last) = (id(first)?, id(last)?);
            if first > last {
                return Err(error());
            }
            ids.extend(first..=last);
        }
        Ok(ids.into_iter().collect())
    }
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|before, after| before + 1 == *after);
        let text: Vec<String> = runs
            .map(|run| match run {
                [one] => one.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            })
            .collect();
        f.pad(&text.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_ids() {
        for (text, ids, printed) in [
            ("0", &[0][..], "0"),
            ("0-1,3\n", &[0, 1, 3], "0-1,3"),
            ("3,0-1,1", &[0, 1, 3], "0-1,3"),
            ("2-2", &[2], "2"),
            ("\n", &[], ""),
            ("0-2, 4 ,5", &[0, 1, 2, 4, 5], "0-2,4-5"),
        ] {
            let list: IdList = text.parse().unwrap();
            assert_eq!(
                (list.as_slice(), list.to_string().as_str()),
                (ids, printed),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_not_a_list() {
        for text in [
            "x",
            "1-",
            "-1",
            "3-1",
            "0,,1",
            "+1",
            "0x1",
            "0-4294967295",
            "70000",
            "1 2",
        ] {
            let error = text.parse::<IdList>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("0-1,3"), "{error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }
}
