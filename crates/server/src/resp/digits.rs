//! Integers as decimal text.

/// Bytes of the longest integer.
const LONGEST: usize = 20;
/// Bytes of the longest line: a byte in front of the integer, and its end.
const LINE: usize = 1 + LONGEST + 2;

/// An integer as decimal text, without memory of its own. What `core` writes numbers with is for
/// all formats, and takes several times as long.
pub struct Digits {
    text: [u8; LINE],
    start: usize,
}

/// Where the text ends.
const END: usize = 1 + LONGEST;

impl Digits {
    /// The text of an integer.
    pub fn of(number: i64) -> Digits {
        let (mut text, mut start) = ([0; LINE], END);
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
        &self.text[self.start..END]
    }

    /// The text behind this byte.
    pub fn behind(&mut self, first: u8) -> &[u8] {
        let start = self.start - 1;
        self.text[start] = first;
        &self.text[start..END]
    }

    /// The line of the protocol that is this byte and the text.
    pub fn line(&mut self, first: u8) -> &[u8] {
        let start = self.start - 1;
        self.text[start] = first;
        self.text[END..].copy_from_slice(b"\r\n");
        &self.text[start..]
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
            let text = number.to_string();
            assert_eq!(Digits::of(number).bytes(), text.as_bytes());
            assert_eq!(
                Digits::of(number).behind(b'+'),
                format!("+{text}").as_bytes()
            );
            let line = format!(":{text}\r\n");
            assert_eq!(Digits::of(number).line(b':'), line.as_bytes());
        }
    }
}
