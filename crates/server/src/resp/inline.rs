//! Commands as one line of words, as typed into `telnet`.

use std::ops::Range;

/// Splits a line into words, with quotes and escapes as Redis has them. Words are appended to
/// `bytes`; `None` if a quote is not closed.
pub(super) fn split(line: &[u8], bytes: &mut Vec<u8>, words: &mut Vec<Range<usize>>) -> Option<()> {
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && first.is_ascii_whitespace()
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(());
        }
        let start = bytes.len();
        rest = word(rest, bytes)?;
        words.push(start..bytes.len());
    }
}

/// Takes one word; returns what follows it.
fn word<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                rest = quoted(tail, *quote, bytes)?;
                // A closing quote ends the word.
                return match rest.first() {
                    Some(next) if !next.is_ascii_whitespace() => None,
                    _ => Some(rest),
                };
            }
            [byte, ..] if byte.is_ascii_whitespace() => return Some(rest),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

fn quoted<'a>(mut rest: &'a [u8], quote: u8, bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, tail) = match rest {
            [] => return None,
            [byte, tail @ ..] if *byte == quote => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), tail)
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, tail)
            }
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
