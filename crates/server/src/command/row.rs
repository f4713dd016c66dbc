//! What the table says of a command.

use super::flags::Flags;
use super::keys_of::Keys;
use super::series::{RecordOf, set_now};
use super::{Call, Done, Running};
use crate::keyspace::Place;
use crate::resp::Args;

/// A command that the server knows.
pub(crate) struct Command {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Its arguments, the name included; at least this many if negative.
    pub arity: i8,
    pub flags: Flags,
    pub keys: Keys,
    /// What `COMMAND DOCS` says.
    pub group: &'static str,
    pub summary: &'static str,
    pub handler: Handler,
}

/// What runs a command.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A function that never waits.
    Now(fn(&mut Call<'_>) -> Done),
    /// A future.
    Later(for<'a> fn(&'a mut Call<'_>) -> Running<'a>),
    /// A function that does nothing if it has to wait, and then a future. Most commands that are
    /// frequent find all that they need in memory, and a future costs as much as they do.
    Quick(Quick, for<'a> fn(&'a mut Call<'_>) -> Running<'a>),
}

/// A function that does nothing if it has to wait.
#[derive(Clone, Copy)]
pub(crate) enum Quick {
    Any(fn(&mut Call<'_>) -> Option<Done>),
    /// One for a command that does nothing but set a string. Several in a row become one write.
    Sets(RecordOf),
    /// One that sets scores. Several in a row become one write, if each has one member of the same
    /// key.
    Score(fn(&mut Call<'_>) -> Option<Done>),
}

impl Quick {
    /// Runs a command whose locks are held. `None` if it has to wait, and then nothing was done.
    pub fn run(self, call: &mut Call<'_>) -> Option<Done> {
        match self {
            Quick::Any(run) | Quick::Score(run) => run(call),
            Quick::Sets(record_of) => set_now(call, record_of),
        }
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Command {
    /// Whether it is about values that are more than one record.
    pub fn is_of_many_records(&self) -> bool {
        matches!(self.group, "hash" | "set" | "sorted-set" | "list")
    }

    /// What it is going to look at, as far as that is known in advance: its first key, and one
    /// element.
    pub fn place<'a>(&self, args: Args<'a>) -> Place<'a> {
        let Some(key) = self.keys.first().and_then(|it| args.get(it)) else {
            return Place::None;
        };
        let element = match self.group {
            // A member stands behind its score.
            "sorted-set" => args.get(args.len() - 1),
            // The index says whether a field is there.
            "hash" if self.name == "hexists" => None,
            "hash" | "set" => args.get(2),
            "list" => None,
            "string" | "generic" if self.keys.is_one() => {
                return match self.flags.has(Flags::OVERWRITES) {
                    true => Place::Overwritten(key),
                    false => Place::String(key),
                };
            }
            // One of many keys is looked for with the others.
            _ => return Place::None,
        };
        match element {
            Some(name) => Place::Element(key, name),
            None => Place::Elements(key),
        }
    }

    /// Whether it takes this many arguments, the name included.
    pub fn takes(&self, args: usize) -> bool {
        match self.arity {
            least if least < 0 => args >= usize::from(least.unsigned_abs()),
            exactly => args == exactly as usize,
        }
    }
}
