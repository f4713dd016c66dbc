//! Patterns of `KEYS`, `SCAN`, `PSUBSCRIBE` and `CONFIG GET`.

/// Whether text matches a pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\` in front of any of these.
/// Takes at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, text);
    // Behind the last star, and the text that it has not taken: there the next attempt begins.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', tail @ ..] = rest {
            rest = tail;
            star = Some((tail, left));
            continue;
        }
        if rest.is_empty() && left.is_empty() {
            return true;
        }
        let one = match left {
            [first, tail @ ..] if !rest.is_empty() => one(rest, *first).map(|it| (it, tail)),
            _ => None,
        };
        match (one, star) {
            (Some(behind), _) => (rest, left) = behind,
            (None, Some((behind, [_, tail @ ..]))) => {
                (rest, left) = (behind, tail);
                star = Some((behind, tail));
            }
            _ => return false,
        }
    }
}

/// What is left of a pattern if its first element matches a byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', tail @ ..] => Some(tail),
        [b'[', tail @ ..] => class(tail, byte),
        [b'\\', escaped, tail @ ..] => (*escaped == byte).then_some(tail),
        [first, tail @ ..] => (*first == byte).then_some(tail),
        [] => None,
    }
}

/// What is left behind a class of bytes, if the byte is in it. One that is not closed ends with the
/// pattern.
fn class(mut rest: &[u8], byte: u8) -> Option<&[u8]> {
    let negated = rest.first() == Some(&b'^');
    if negated {
        rest = &rest[1..];
    }
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', tail @ ..] => {
                rest = tail;
                break;
            }
            [b'\\', escaped, tail @ ..] => {
                found |= *escaped == byte;
                tail
            }
            [low, b'-', high, tail @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                tail
            }
            [one, tail @ ..] => {
                found |= *one == byte;
                tail
            }
        };
    }
    (found != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text) in [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("\\*", "*"),
            ("a*b*c", "aXbYbc"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("**", "x"),
        ] {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("h?llo", "hllo"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("\\*", "x"),
            ("a*b*c", "aXbYb"),
        ] {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
    }
}
