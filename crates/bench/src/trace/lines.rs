//! Text traces: one key a line, any bytes.
//!
//! The map's keys are numbers. A line's key is its rank among the distinct lines in byte order. So
//! keys have the order of the lines, neighbours stay neighbours, and no two lines share a key.
//! (Their first eight bytes would not do: most URLs have the same prefix.)

use super::error::TraceError;
use super::requests::Requests;
use super::source::Source;

/// Reads the non-empty lines.
pub(super) fn read(source: &mut Source, writes: f64) -> Result<Requests, TraceError> {
    let mut text = Vec::new();
    source.read_all(&mut text)?;
    let lines = || {
        text.split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
    };
    let mut ranked: Vec<&[u8]> = lines().collect();
    ranked.sort_unstable();
    ranked.dedup();
    let mut requests = Requests::new(writes);
    for line in lines() {
        // The list contains every line, so the search always succeeds.
        let rank = ranked.partition_point(|ranked| *ranked < line);
        requests.push(rank as u64, None);
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use crate::trace::tests::sample::Sample;
    use crate::trace::{Split, Trace, TraceFormat};

    fn keys(text: &[u8]) -> Vec<u64> {
        let format = TraceFormat::Lines { writes: 0.0 };
        let trace = Trace::open(Sample::new("keys.txt", text).path(), &format).unwrap();
        let count = trace.keys().len() as u64;
        assert!(trace.keys().iter().copied().eq(0..count));
        trace
            .replay(0, 1, Split::RoundRobin)
            .map(|request| request.key)
            .collect()
    }

    #[test]
    fn a_line_is_its_rank() {
        assert_eq!(keys(b"pear\napple\npear\nfig\n"), [2, 0, 2, 1]);
        assert_eq!(
            keys(b"same start, b\nsame start, a\nsame start\n"),
            [2, 1, 0]
        );
    }

    #[test]
    fn ends_of_lines_and_bytes_that_are_not_text_do_not_matter() {
        assert_eq!(keys(b"b\r\na\r\n\r\nb"), [1, 0, 1]);
        assert_eq!(keys(b"\xff\n\x00\n"), [1, 0]);
    }

    #[test]
    fn only_empty_lines_are_an_error() {
        let sample = Sample::new("blank.txt", b"\n\r\n\n");
        let error = Trace::open(sample.path(), &TraceFormat::Lines { writes: 0.0 }).unwrap_err();
        assert!(error.to_string().ends_with(": holds no request"), "{error}");
    }
}
