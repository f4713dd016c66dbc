//! The wire protocol, RESP2 and RESP3: commands in, replies out. No I/O.

mod digits;
mod inline;
mod parse;
mod write;

pub use digits::Digits;
pub use parse::{Args, Broken, Limits, Parser};
pub use write::{Protocol, Writer};

/// The decimal number that these bytes are, as Redis reads one: no plus sign, no leading zero, no
/// space.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !canonical {
        return None;
    }
    let mut number: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        number = number.checked_mul(10)?;
        number = match text[0] {
            b'-' => number.checked_sub(digit)?,
            _ => number.checked_add(digit)?,
        };
    }
    Some(number)
}
