//! Commands that are parsed before the first of them is executed, so that memory that they need is
//! fetched for all of them at the same time.

use std::ops::Range;

use smallvec::SmallVec;

use crate::command::{Command, Flags, find};
use crate::keyspace::{Hint, Hints, Keyspace, Place};
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
    /// Where the commands' strings were found, if they were looked for.
    hints: Hints,
}

struct Parsed {
    command: Option<&'static Command>,
    is_inline: bool,
    /// Where its arguments' bytes begin, in the input or in `words`.
    start: usize,
    args: Range<usize>,
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
        while self.commands.len() < if one { 1 } else { MOST } {
            let rest = &input[start..];
            let taken = match parser.next(rest, limits) {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(broken) => return (start, Some(broken)),
            };
            let args = parser.args(rest);
            if let Some(name) = args.get(0) {
                let first = self.ranges.len();
                self.ranges.extend_from_slice(args.ranges());
                let words = parser.words();
                self.commands.push(Parsed {
                    command: find(name),
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

    /// The commands, with the input that they were parsed from, and where their strings were found.
    /// One without a name that is known has no row of the table.
    pub fn commands<'a>(
        &'a self,
        input: &'a [u8],
    ) -> impl Iterator<Item = (Option<&'static Command>, Args<'a>, Option<Hint>)> {
        self.commands.iter().enumerate().map(move |(index, it)| {
            let bytes = if it.is_inline { &self.words } else { input };
            let args = Args::new(&bytes[it.start..], &self.ranges[it.args.clone()]);
            (it.command, args, self.hints.get(index).copied().flatten())
        })
    }

    /// Has the keyspace prepare for the first key of each command, if there are several.
    pub fn prepare(&mut self, input: &[u8], keyspace: &Keyspace) {
        if self.commands.len() < 2 {
            return;
        }
        let places = self.commands(input).map(|(command, args, _)| {
            let key = command.and_then(|it| args.get(it.keys.first()?));
            let (Some(command), Some(key)) = (command, key) else {
                return Place::None;
            };
            let member = match command.group {
                // A member stands behind its score.
                "sorted-set" => args.get(args.len() - 1),
                "hash" | "set" => args.get(2),
                // One of many keys is looked for with the others.
                _ if !command.keys.is_one() => return Place::None,
                _ if command.flags.has(Flags::OVERWRITES) => return Place::Overwritten(key),
                _ => return Place::String(key),
            };
            member.map_or(Place::None, |member| Place::Element(key, member))
        });
        let hints = keyspace.prepare(&places.collect::<SmallVec<[_; MOST]>>());
        self.hints = hints;
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
        self.hints.clear();
    }
}
