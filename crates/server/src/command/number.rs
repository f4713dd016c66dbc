//! Floating-point numbers as text, in Redis' formats.

/// A number as `INCRBYFLOAT` reads one.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    if let Some(number) = short_whole(text) {
        return Some(number);
    }
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        let number = hexadecimal(digits)?;
        return Some(if text.starts_with('-') {
            -number
        } else {
            number
        });
    }
    let known = unsigned.starts_with(|it: char| it.is_ascii_digit() || it == '.')
        || ["inf", "infinity"]
            .iter()
            .any(|it| unsigned.eq_ignore_ascii_case(it));
    let number: f64 = known.then(|| text.parse().ok()).flatten()?;
    // What overflows is refused, not infinite.
    let is_written_infinite = unsigned.starts_with(['i', 'I']);
    (!number.is_nan() && (number.is_finite() || is_written_infinite)).then_some(number)
}

/// A hexadecimal number as C reads one, behind its `0x`: `1.8p-1` is 0.75. More than 16 digits are
/// not read.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i16>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.len() > 16 || !all.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(&all, 16).ok()? as f64;
    let number = number * 2f64.powi(i32::from(exponent) - 4 * fraction.len() as i32);
    number.is_finite().then_some(number)
}

/// A number of a few digits and nothing else, as most scores are: it takes a tenth of the time.
fn short_whole(text: &[u8]) -> Option<f64> {
    // So many are exact.
    if !(1..=15).contains(&text.len()) {
        return None;
    }
    let number = text.iter().try_fold(0, |number, &byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    });
    number.map(|it| it as f64)
}

/// Digits behind the point that sums keep.
const DIGITS: i64 = 17;
/// Digits in front of the point that sums have room for.
const WHOLE: i64 = 19;

/// A decimal number times 10^17, exactly; `None` if it has more digits than fit.
fn scaled(text: &[u8]) -> Option<i128> {
    let unsigned = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    let (digits, exponent) = match unsigned.iter().position(|it| matches!(it, b'e' | b'E')) {
        Some(at) => {
            let exponent = std::str::from_utf8(&unsigned[at + 1..]).ok()?;
            (&unsigned[..at], exponent.parse().ok()?)
        }
        None => (unsigned, 0_i64),
    };
    let mut parts = digits.splitn(2, |&byte| byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or(&[]));
    let is_number = |it: &[u8]| it.iter().all(u8::is_ascii_digit);
    if !is_number(whole) || !is_number(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    // Zeros at the ends are not counted among the digits: an exponent may lie behind many of them.
    let all = whole.iter().chain(fraction);
    let significant = all.clone().skip_while(|it| **it == b'0');
    let zeros = all.clone().rev().take_while(|it| **it == b'0').count();
    let count = significant.clone().count();
    let Some(kept) = count.checked_sub(zeros).filter(|it| *it > 0) else {
        return Some(0);
    };
    // Where the last digit that is kept stands: 0 is that of ones.
    let last = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(i64::try_from(zeros).ok()?)?;
    let kept_digits = i64::try_from(kept).ok()?;
    if last < -DIGITS || kept_digits > WHOLE - last {
        return None;
    }
    let number = significant.take(kept).fold(0, |number: i128, digit| {
        number * 10 + i128::from(digit - b'0')
    });
    let number = number * 10i128.pow(u32::try_from(last + DIGITS).ok()?);
    Some(if text[0] == b'-' { -number } else { number })
}

/// The sum of two numbers as text, without an exponent; `None` if it is not finite. Redis adds in
/// 80-bit floating point and prints 17 digits behind the point; sums of decimal numbers are exact
/// here, as long as they have no more digits than that, and 19 in front of the point.
pub(crate) fn sum(a: &[u8], b: &[u8]) -> Option<String> {
    if let (Some(a), Some(b)) = (scaled(a), scaled(b)) {
        let sum = a + b;
        let unit = 10u128.pow(DIGITS.unsigned_abs() as u32);
        let (whole, fraction) = (sum.unsigned_abs() / unit, sum.unsigned_abs() % unit);
        let sign = if sum < 0 { "-" } else { "" };
        return Some(trimmed(&format!("{sign}{whole}.{fraction:017}")));
    }
    let sum = float(a)? + float(b)?;
    sum.is_finite().then(|| trimmed(&format!("{sum:.17}")))
}

fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text.into(),
    }
}

/// A number as C's `%.17g` prints it: how replies show scores.
pub(crate) fn decimal(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let behind = (16 - exponent).max(0) as usize;
        return trimmed(&format!("{number:.behind$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("007", Some(7.0)),
            ("123456789012345", Some(123_456_789_012_345.0)),
            ("1234567890123456789", Some(1_234_567_890_123_456_789.0)),
            ("-12", Some(-12.0)),
            ("+1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("1e3", Some(1000.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("1e999", None),
            ("nan", None),
            ("0x10", Some(16.0)),
            ("-0X1.8p-1", Some(-0.75)),
            ("0x.8", Some(0.5)),
            ("0xffffffffffffffff", Some(18_446_744_073_709_551_615.0)),
            ("0x", None),
            ("0x.", None),
            ("0x+1", None),
            ("0x1p", None),
            ("0x1p9999", None),
            ("0x-1", None),
            ("", None),
            ("1x", None),
            (" 1", None),
        ] {
            assert_eq!(float(text.as_bytes()), expected, "{text}");
        }
        assert!(float(b"-0").is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn sums_are_those_of_decimal_numbers() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("5", "-5", "0"),
            ("-1.5", "1", "-0.5"),
            ("1", "-1.25", "-0.25"),
            ("0.1", "3e2", "300.1"),
            ("0.1", "+3E+2", "300.1"),
            ("9007199254740993", "1e0", "9007199254740994"),
            ("0.1", "1e-17", "0.10000000000000001"),
            ("9e18", "-1", "8999999999999999999"),
            ("0.1", "0e999999", "0.1"),
            ("0.1", "-0.0003000e3", "-0.2"),
            (
                "100e-2",
                "00000000000000000000001.50000000000000000000",
                "2.5",
            ),
            (".5", "5.", "5.5"),
        ] {
            assert_eq!(sum(a.as_bytes(), b.as_bytes()).as_deref(), Some(expected));
        }
        // What does not fit is added as Redis' numbers are, with fewer digits.
        assert_eq!(sum(b"1e20", b"1").as_deref(), Some("100000000000000000000"));
        assert_eq!(sum(b"1e-18", b"1").as_deref(), Some("1"));
        for wrong in ["e5", ".", "1e", "1e+-5", "1e5.", "1e--5", "1e1e1"] {
            assert_eq!(sum(b"1", wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(sum(b"inf", b"1"), None);
        assert_eq!(sum(b"1", b"x"), None);
    }

    #[test]
    fn scores_are_shown_as_c_shows_them() {
        for (number, expected) in [
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e17, "1e+17"),
            (12345678901234567.0, "12345678901234568"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
            (-0.0, "-0"),
        ] {
            assert_eq!(decimal(number), expected);
        }
    }
}
