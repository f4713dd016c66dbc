//! A hash of keys that spreads them over locks.

/// An odd number: 2^64 ÷ the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a key, to spread keys over locks: quick, for short keys above all. Who wants can find
/// keys that have the same.
pub fn spread(key: &[u8]) -> u64 {
    let mix = |hash: u64, word: [u8; 8]| {
        let hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
        hash ^ hash >> 32
    };
    let mut hash = key.len() as u64;
    let (words, rest) = key.as_chunks();
    for &word in words {
        hash = mix(hash, word);
    }
    let hash = match key.last_chunk() {
        _ if rest.is_empty() => hash,
        // Eight bytes, some of them once more, need no copy.
        Some(&last) => mix(hash, last),
        None => mix(hash, first_of(rest)),
    };
    // What differs in a word's last byte alone has not come to the lower bits before.
    hash.wrapping_mul(ODD) >> 32
}

/// Fewer than eight bytes, and zeros behind them.
fn first_of(bytes: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_some_digits_are_spread_evenly() {
        for digits in [1, 3, 8, 12] {
            let mut counts = [0u32; 256];
            let keys = 10u32.pow(digits.min(4));
            for number in 0..keys {
                let key = format!("{number:0width$}", width = digits as usize);
                counts[spread(key.as_bytes()) as usize % 256] += 1;
            }
            let fair = keys.div_ceil(256);
            assert!(counts.iter().all(|&it| it <= 3 * fair + 5), "{counts:?}");
        }
    }

    #[test]
    fn keys_of_zeros_differ_by_their_length() {
        let hashes = (0..20).map(|len| spread(&vec![0; len]));
        let hashes: std::collections::BTreeSet<u64> = hashes.collect();
        assert_eq!(hashes.len(), 20);
    }
}
