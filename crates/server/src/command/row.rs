//! What the table says of a command.

use super::flags::Flags;
use super::keys_of::Keys;
use super::{Call, Done, Running};

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
    Quick(
        fn(&mut Call<'_>) -> Option<Done>,
        for<'a> fn(&'a mut Call<'_>) -> Running<'a>,
    ),
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

    /// Whether it takes this many arguments, the name included.
    pub fn takes(&self, args: usize) -> bool {
        match self.arity {
            least if least < 0 => args >= usize::from(least.unsigned_abs()),
            exactly => args == exactly as usize,
        }
    }
}
