//! Integers as decimal text.

/// Bytes of the longest integer.
const LONGEST: usize = 20;

/// An integer as decimal text, without memory of its own. What `core` writes numbers with is for
/// all formats, and takes several times as long.
pub struct Digits {
    text: [u8; LONGEST],
    start: usize,
}

impl Digits {
    /// The text of an integer.
    pub fn of(number: i64) -> Digits {
        let (mut text, mut start) = ([0; LONGEST], LONGEST);
        let mut rest = number.unsigned_abs();
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            start -= 1;
            text[start] = b'-';
        }
        Digits { text, start }
    }

    /// The text.
    pub fn bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_core_writes_them() {
        let powers = (0..19).map(|it| 10i64.pow(it));
        let all = powers.flat_map(|it| [it - 1, it, -it, 7 * (it / 8)]);
        for number in all.chain([0, i64::MIN, i64::MAX]) {
            assert_eq!(Digits::of(number).bytes(), number.to_string().as_bytes());
        }
    }
}
