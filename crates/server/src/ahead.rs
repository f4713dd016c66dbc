//! Commands that are parsed before the first of them is executed, so that memory that they need is
//! prefetched for all of them at the same time, and records that they need are read so.

use std::ops::Range;

use crate::command::{Command, find};
use crate::keyspace::Place;
use crate::resp::{Args, Broken, Limits, Parser};

/// Commands that are parsed at a time.
const MOST: usize = 16;

/// Commands that are parsed and not executed.
#[derive(Default)]
pub(crate) struct Ahead {
    commands: Vec<Parsed>,
    /// Where each argument lies, behind the start of its command.
    ranges: Vec<Range<usize>>,
    /// The arguments of inline commands.
    words: Vec<u8>,
}

struct Parsed {
    command: Option<&'static Command>,
    is_inline: bool,
    /// Where its arguments' bytes begin, in the input or in `words`.
    start: usize,
    args: Range<usize>,
}

impl Parsed {
    fn args<'a>(&self, ranges: &'a [Range<usize>], words: &'a [u8], input: &'a [u8]) -> Args<'a> {
        let bytes = if self.is_inline { words } else { input };
        Args::new(&bytes[self.start..], &ranges[self.args.clone()])
    }
}

impl Ahead {
    /// Parses on from `start`, in place of the commands that are here: one command if `one`,
    /// otherwise some, if they are there. Returns where the next one begins, and what is wrong with
    /// that.
    pub fn parse(
        &mut self,
        parser: &mut Parser,
        input: &[u8],
        mut start: usize,
        limits: Limits,
        one: bool,
    ) -> (usize, Option<Broken>) {
        self.clear();
        // Most commands are the same as the one before.
        let (mut last, mut command) = (None, None);
        while self.commands.len() < if one { 1 } else { MOST } {
            let rest = &input[start..];
            let taken = match parser.next(rest, limits) {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(broken) => return (start, Some(broken)),
            };
            let args = parser.args(rest);
            if let Some(name) = args.get(0) {
                if Some(name) != last {
                    command = find(name);
                }
                let first = self.ranges.len();
                self.ranges.extend_from_slice(args.ranges());
                let words = parser.words();
                last = match words {
                    Some(_) => None,
                    None => Some(&rest[args.ranges()[0].clone()]),
                };
                self.commands.push(Parsed {
                    command,
                    is_inline: words.is_some(),
                    start: words.map_or(start, |_| self.words.len()),
                    args: first..self.ranges.len(),
                });
                self.words.extend_from_slice(words.unwrap_or(&[]));
            }
            start += taken;
        }
        (start, None)
    }

    /// Whether no command is here.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// How many commands are here.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// A command that is here, with the input that they were parsed from. One without a name that
    /// is known has no row of the table.
    pub fn command<'a>(
        &'a self,
        index: usize,
        input: &'a [u8],
    ) -> (Option<&'static Command>, Args<'a>) {
        let parsed = &self.commands[index];
        let args = parsed.args(&self.ranges, &self.words, input);
        (parsed.command, args)
    }

    /// What the commands are going to look at, from one on, as far as they may run.
    pub fn places<'a>(
        &'a self,
        from: usize,
        input: &'a [u8],
        may_run: impl Fn(&Command, Args) -> bool + Clone,
    ) -> impl Iterator<Item = Place<'a>> + Clone {
        (from..self.len()).map(move |index| match self.command(index, input) {
            (Some(command), args) if may_run(command, args) => command.place(args),
            _ => Place::None,
        })
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        self.commands.capacity() * size_of::<Parsed>()
            + self.ranges.capacity() * size_of::<Range<usize>>()
            + self.words.capacity()
    }

    /// Forgets the commands.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.ranges.clear();
        self.words.clear();
    }
}
