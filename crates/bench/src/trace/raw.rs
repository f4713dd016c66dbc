//! Raw traces: a sequence of little-endian numbers.

use super::error::TraceError;
use super::requests::Requests;
use super::source::Source;

/// Reads numbers of `N` bytes each as keys.
pub(super) fn read<const N: usize, T: Into<u64>>(
    source: &mut Source,
    decode: fn([u8; N]) -> T,
    writes: f64,
) -> Result<Requests, TraceError> {
    let mut requests = Requests::new(writes);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        source.read_some((N as u64) << 13, &mut bytes)?;
        let (numbers, rest) = bytes.as_chunks::<N>();
        for number in numbers {
            requests.push(decode(*number).into(), None);
        }
        if !rest.is_empty() {
            let (bits, whole, left) = (N * 8, requests.len(), rest.len());
            return Err(source.error(format!(
                "ends within a number: {whole} of {bits} bits, then {left} bytes more; cut off, or not u{bits}"
            )));
        }
        if numbers.is_empty() {
            return Ok(requests);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::tests::sample::{self, Sample};
    use crate::trace::{Split, Trace, TraceFormat};
    use crate::workload::Op;

    #[test]
    fn numbers_are_keys_in_their_order() {
        let numbers = [3u64, u64::MAX, 0, 3];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let trace = Trace::open(
            Sample::new("a.u64", &bytes).path(),
            &TraceFormat::U64 { writes: 0.0 },
        )
        .unwrap();
        assert_eq!(trace.keys(), [0, 3, u64::MAX]);
        let requests: Vec<_> = trace.replay(0, 1, Split::RoundRobin).collect();
        assert!(requests.iter().map(|request| request.key).eq(numbers));
        assert!(requests.iter().all(|request| request.op == Op::Read));

        let compressed = Sample::new("a.u32.xz", sample::XZ);
        let trace = Trace::open(compressed.path(), &TraceFormat::U32 { writes: 1.0 }).unwrap();
        assert_eq!(
            (trace.keys(), trace.len(), trace.writes()),
            (&[5, 7, 9][..], 4, 4)
        );
    }

    #[test]
    fn longer_than_one_reading_and_cut_off() {
        let mut bytes: Vec<u8> = (0..20_000u32).flat_map(u32::to_le_bytes).collect();
        let format = TraceFormat::U32 { writes: 0.0 };
        let trace = Trace::open(Sample::new("long.u32", &bytes).path(), &format).unwrap();
        assert_eq!((trace.len(), trace.keys().len()), (20_000, 20_000));

        bytes.truncate(79_999);
        let error = Trace::open(Sample::new("cut.u32", &bytes).path(), &format)
            .unwrap_err()
            .to_string();
        let said = "ends within a number: 19999 of 32 bits, then 3 bytes more; cut off, or not u32";
        assert!(error.ends_with(said), "{error}");
    }

    #[test]
    fn empty_is_an_error() {
        let sample = Sample::new("empty.u32", b"");
        let error = Trace::open(sample.path(), &TraceFormat::U32 { writes: 0.0 }).unwrap_err();
        assert!(error.to_string().ends_with(": holds no request"), "{error}");
    }
}
