//! Just enough of Rust's lexical rules to tell code from comments and literals.
//!
//! Invariant: [`mask`] keeps every newline, so a line number in the result is one in the source.

/// The source with the insides of comments, strings and characters replaced by spaces.
pub fn mask(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            let blank = |&c: &char| if c == '\n' { '\n' } else { ' ' };
            out.extend(chars[at..end].iter().map(blank));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none starts there.
fn literal_end(chars: &[char], at: usize) -> usize {
    match (chars[at], chars.get(at + 1)) {
        ('/', Some('/')) => find(chars, at, |c| c == '\n'),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => quoted_end(chars, at + 1, '"'),
        ('\'', _) => char_end(chars, at),
        ('r', Some('"' | '#')) if starts_word(chars, at) => raw_end(chars, at),
        ('b' | 'c', Some('r')) if starts_word(chars, at) => match raw_end(chars, at + 1) {
            end if end == at + 1 => at,
            end => end,
        },
        _ => at,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    let rest = chars[from..].iter();
    from + rest.take_while(|&&c| !wanted(c)).count()
}

fn starts_word(chars: &[char], at: usize) -> bool {
    at == 0 || !is_word(chars[at - 1])
}

/// Block comments nest.
fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// The end of a literal with escapes, whose opening quote lies just before `at`.
fn quoted_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// A character literal, or nothing when the quote begins a lifetime or a label.
fn char_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => quoted_end(chars, at + 1, '\''),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// A raw string at the `r`, or nothing when it is a raw identifier.
fn raw_end(chars: &[char], at: usize) -> usize {
    let open = find(chars, at + 1, |c| c != '#');
    let hashes = open - at - 1;
    if chars.get(open) != Some(&'"') {
        return at;
    }
    let mut close = open + 1;
    while close < chars.len() {
        let after = &chars[close + 1..];
        let closes = after.len() >= hashes && after[..hashes].iter().all(|&c| c == '#');
        if chars[close] == '"' && closes {
            return close + 1 + hashes;
        }
        close += 1;
    }
    chars.len()
}

/// Whether the character can be part of an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The identifiers, keywords and numbers of a line.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masking leaves one word behind wherever it is code and none where it is not.
    fn count(source: &str) -> usize {
        let masked = mask(source);
        assert_eq!(masked.chars().count(), source.chars().count());
        assert_eq!(masked.lines().count(), source.lines().count());
        masked.matches("word").count()
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        for source in [
            "// word\n",
            "//! word",
            "/* word /* word */ word */",
            "\"word\"",
            "\"a \\\" word\"",
            "b\"word\"",
            "r\"\\\" ",
            "r#\"a \" word\"#",
            "br##\"word\"# word\"##",
            "cr\"word\"",
            "\"two\nlines word\"",
            "/* never closed word",
            "\"never closed word \\",
        ] {
            assert_eq!(count(source), 0, "{source}");
        }
    }

    #[test]
    fn code_stays() {
        for source in [
            "word",
            "'\"'; word; '\"'",
            "'\\''; word",
            "fn f<'a>(x: &'a str) { word }",
            "r#word",
            "br; word",
            "\"\" word \"\"",
            "/* a */ word // b",
            "r\"\\\"; word",
            "'l: loop { word }",
        ] {
            assert_eq!(count(source), 1, "{source}");
        }
    }

    #[test]
    fn words_split_at_anything_else() {
        let found: Vec<_> = words("libc::mmap(p, x_1) ").collect();
        assert_eq!(found, ["libc", "mmap", "p", "x_1"]);
    }
}
