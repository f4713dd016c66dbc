//! A parser of commands that goes on where the bytes ended.

use std::ops::{Index, Range};

use super::{inline, integer};

/// The longest line: an inline command, or a length.
const MAX_LINE: usize = 64 << 10;

/// The most that a client may send in one command.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Arguments.
    pub arguments: usize,
    /// Bytes of one argument.
    pub bulk: usize,
}

/// Why the bytes are no command, in Redis' words. The connection can't go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(pub String);

fn broken<T>(words: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(format!("Protocol error: {}", words.into())))
}

/// Parses commands from the bytes that a client sent so far.
///
/// ```
/// use timberline_server::resp::{Limits, Parser};
///
/// let mut parser = Parser::default();
/// let limits = Limits { arguments: 100, bulk: 1000 };
/// assert_eq!(parser.next(b"*2\r\n$3\r\nGET\r\n$1\r\n", limits), Ok(None));
/// let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
/// assert_eq!(parser.next(input, limits), Ok(Some(20)));
/// assert_eq!(parser.args(input).iter().collect::<Vec<_>>(), [&b"GET"[..], b"k"]);
/// ```
#[derive(Default)]
pub struct Parser {
    /// Where each argument lies, in the input or in `words`.
    args: Vec<Range<usize>>,
    /// The arguments of an inline command.
    words: Vec<u8>,
    is_inline: bool,
    /// Bytes of the input that were looked at.
    at: usize,
    /// Arguments that are to come; 0 in front of a command.
    missing: usize,
    /// The length of the argument at `at`, once that is known.
    bulk: Option<usize>,
}

impl Parser {
    /// Parses on. The input begins with the first byte behind the last command, and continues what
    /// it was at the last call. Returns how many bytes the next command takes, `None` if its end is
    /// not there. A command without arguments asks for nothing.
    pub fn next(&mut self, input: &[u8], limits: Limits) -> Result<Option<usize>, Broken> {
        if self.missing == 0 {
            self.args.clear();
            self.words.clear();
            match input.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(count) = self.count(input, limits)? else {
                        return Ok(None);
                    };
                    self.is_inline = false;
                    self.missing = count;
                }
                Some(_) => {
                    let Some(end) = line_end(input, 0, "too big inline request")? else {
                        return Ok(None);
                    };
                    self.is_inline = true;
                    let split = inline::split(&input[..end], &mut self.words, &mut self.args);
                    if split.is_none() {
                        return broken("unbalanced quotes in request");
                    }
                    return Ok(Some(end + 1));
                }
            }
        }
        self.whole_arguments(input, limits);
        while self.missing > 0 {
            if !self.argument(input, limits)? {
                return Ok(None);
            }
        }
        Ok(Some(self.ended()))
    }

    /// The arguments of the command that [`next`](Self::next) found in this input.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args {
            bytes: if self.is_inline { &self.words } else { input },
            ranges: &self.args,
        }
    }

    /// The bytes that [`args`](Self::args) lie in, if the command is an inline one.
    pub fn words(&self) -> Option<&[u8]> {
        self.is_inline.then_some(&self.words[..])
    }

    /// Bytes that the command under way needs at least, behind those that are there.
    pub fn wanted(&self, have: usize) -> usize {
        self.bulk
            .map_or(0, |bulk| (self.at + bulk + 2).saturating_sub(have))
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        self.args.capacity() * size_of::<Range<usize>>() + self.words.capacity()
    }

    /// Gives memory back after a command with many arguments.
    pub fn shrink(&mut self) {
        if self.memory() > 4096 && self.missing == 0 {
            self.args = Vec::new();
            self.words = Vec::new();
        }
    }

    fn ended(&mut self) -> usize {
        std::mem::take(&mut self.at)
    }

    fn count(&mut self, input: &[u8], limits: Limits) -> Result<Option<usize>, Broken> {
        if let Some((count, behind)) = short_number(input, self.at)
            && count <= limits.arguments
        {
            self.at = behind;
            return Ok(Some(count));
        }
        let Some(end) = line_end(input, self.at, "too big mbulk count string")? else {
            return Ok(None);
        };
        let count = integer(line(input, self.at + 1, end));
        let count = match count {
            Some(count) if count <= limits.arguments as i64 => count.max(0) as usize,
            _ => return broken("invalid multibulk length"),
        };
        self.at = end + 1;
        Ok(Some(count))
    }

    /// Takes arguments as long as each is all there, with a short length: almost all are. The
    /// others are for [`argument`](Self::argument).
    fn whole_arguments(&mut self, input: &[u8], limits: Limits) {
        if self.bulk.is_some() {
            return;
        }
        let (mut at, mut missing) = (self.at, self.missing);
        while missing > 0
            && input.get(at) == Some(&b'$')
            && let Some((bulk, start)) = short_number(input, at)
            && bulk <= limits.bulk
            && start + bulk + 2 <= input.len()
        {
            self.args.push(start..start + bulk);
            at = start + bulk + 2;
            missing -= 1;
        }
        (self.at, self.missing) = (at, missing);
    }

    /// Takes one argument, if it is all there.
    fn argument(&mut self, input: &[u8], limits: Limits) -> Result<bool, Broken> {
        let bulk = match self.bulk {
            Some(bulk) => bulk,
            None => {
                match input.get(self.at) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(&other) => {
                        return broken(format!("expected '$', got '{}'", shown(other)));
                    }
                }
                let Some(end) = line_end(input, self.at, "too big bulk count string")? else {
                    return Ok(false);
                };
                let bulk = match integer(line(input, self.at + 1, end)) {
                    Some(bulk) if bulk >= 0 && bulk as u64 <= limits.bulk as u64 => bulk as usize,
                    _ => return broken("invalid bulk length"),
                };
                self.at = end + 1;
                self.bulk = Some(bulk);
                bulk
            }
        };
        // Redis does not look at the two bytes behind an argument either.
        if input.len() < self.at + bulk + 2 {
            return Ok(false);
        }
        self.args.push(self.at..self.at + bulk);
        self.at += bulk + 2;
        self.bulk = None;
        self.missing -= 1;
        Ok(true)
    }
}

/// The number of a line of the usual kind that begins there, behind its first byte, and where the
/// next one begins: one to four digits, of which the first is no zero.
#[inline]
fn short_number(input: &[u8], line: usize) -> Option<(usize, usize)> {
    let rest = input.get(line + 1..)?;
    let mut number = 0;
    for (index, &byte) in rest.iter().take(5).enumerate() {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            let is_end = number > 0 && byte == b'\r' && rest.get(index + 1) == Some(&b'\n');
            return is_end.then_some((number, line + index + 3));
        }
        if digit == 0 && index == 0 {
            return None;
        }
        number = 10 * number + digit;
    }
    None
}

/// Where the line ends that begins there: its line feed.
fn line_end(input: &[u8], at: usize, too_long: &str) -> Result<Option<usize>, Broken> {
    let rest = &input[at..];
    let looked_at = &rest[..rest.len().min(MAX_LINE)];
    match looked_at.iter().position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some(at + end)),
        None if rest.len() >= MAX_LINE => broken(too_long),
        None => Ok(None),
    }
}

/// The bytes of a line without its end.
fn line(input: &[u8], from: usize, end: usize) -> &[u8] {
    let line = &input[from..end];
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn shown(byte: u8) -> char {
    match byte {
        b'\r' | b'\n' => ' ',
        _ => char::from(byte),
    }
}

/// The arguments of a command, its name first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// Arguments in bytes of one's own.
    pub fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Args<'a> {
        Args { bytes, ranges }
    }

    /// Where they lie in their bytes.
    pub fn ranges(&self) -> &'a [Range<usize>] {
        self.ranges
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|it| &self.bytes[it.clone()])
    }

    /// All from this one on.
    pub fn from(&self, index: usize) -> Args<'a> {
        Args {
            bytes: self.bytes,
            ranges: &self.ranges[index.min(self.ranges.len())..],
        }
    }

    /// All in order.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.ranges.iter().map(move |it| &bytes[it.clone()])
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.ranges[index].clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        arguments: 1 << 20,
        bulk: 512 << 20,
    };

    fn parsed(input: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Broken> {
        let (mut parser, mut rest, mut commands) = (Parser::default(), input, Vec::new());
        while let Some(taken) = parser.next(rest, LIMITS)? {
            commands.push(parser.args(rest).iter().map(<[u8]>::to_vec).collect());
            commands.retain(|it: &Vec<_>| !it.is_empty());
            rest = &rest[taken..];
        }
        Ok(commands)
    }

    fn refused(input: &[u8]) -> String {
        parsed(input).unwrap_err().0
    }

    #[test]
    fn bytes_that_come_one_by_one_are_the_same_commands() {
        let input = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*0\r\n\r\n  ping \"a \\x41\\n\" 'b'\r\n*1\r\n$0\r\n\r\n";
        let whole = parsed(input).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0], [&b"GET"[..], b"\r\n"]);
        assert_eq!(whole[1], [&b"ping"[..], b"a A\n", b"b"]);
        assert_eq!(whole[2], [b""]);
        let (mut parser, mut start, mut commands) = (Parser::default(), 0, Vec::new());
        for end in 0..=input.len() {
            while let Some(taken) = parser.next(&input[start..end], LIMITS).unwrap() {
                let args = parser.args(&input[start..end]);
                commands.push(args.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
                start += taken;
            }
        }
        commands.retain(|it| !it.is_empty());
        assert_eq!(commands, whole);
    }

    #[test]
    fn what_is_no_command_is_refused_in_the_usual_words() {
        assert_eq!(
            refused(b"*1\r\n+a"),
            "Protocol error: expected '$', got '+'"
        );
        for length in [
            "-1",
            "a",
            "536870913",
            "99999999999999999999",
            "",
            "+1",
            "01",
        ] {
            let input = format!("*1\r\n${length}\r\n");
            assert_eq!(
                refused(input.as_bytes()),
                "Protocol error: invalid bulk length"
            );
        }
        for count in ["1048577", "a", "", "9223372036854775808"] {
            let input = format!("*{count}\r\n");
            assert_eq!(
                refused(input.as_bytes()),
                "Protocol error: invalid multibulk length"
            );
        }
        assert_eq!(
            refused(b"get \"a\r\n"),
            "Protocol error: unbalanced quotes in request"
        );
        assert_eq!(
            refused(b"get \"a\"b\r\n"),
            "Protocol error: unbalanced quotes in request"
        );
        let long = vec![b'a'; MAX_LINE];
        assert_eq!(refused(&long), "Protocol error: too big inline request");
        assert_eq!(
            refused(&[b"*".to_vec(), b"1".repeat(MAX_LINE)].concat()),
            "Protocol error: too big mbulk count string"
        );
    }

    #[test]
    fn a_length_reserves_no_memory() {
        let mut parser = Parser::default();
        assert_eq!(
            parser.next(b"*1048576\r\n$536870912\r\nabc", LIMITS),
            Ok(None)
        );
        assert!(parser.memory() < 1024);
        assert_eq!(parser.wanted(25), 536_870_912 + 2 - 3);
    }
}
