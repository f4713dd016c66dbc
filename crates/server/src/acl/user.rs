//! What a user may do.

use super::password::Password;
use crate::command::categories::{SUBCOMMANDS, is_container, subcommand};
use crate::command::{Command, Flags, TABLE, access, matches};
use crate::resp::Args;

/// What a user may do, and how it shows who it is.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub is_on: bool,
    /// Any password is right.
    pub needs_no_password: bool,
    pub(super) passwords: Vec<Password>,
    /// What was said of checking the payload of `RESTORE`, which is not there.
    pub(super) payload: Option<&'static str>,
    pub(super) commands: Allowed,
    /// The rules that made `commands`, as few as do.
    pub(super) command_rules: Vec<String>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
}

/// Keys that a user may read or write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyPattern {
    pub reads: bool,
    pub writes: bool,
    pub pattern: Box<[u8]>,
}

/// Commands that a user may run: a bit for each row of the table, and for each subcommand.
#[derive(Clone, Default, Debug)]
pub(super) struct Allowed {
    commands: [u64; 4],
    subcommands: u64,
    /// Commands that are allowed with this first argument.
    firsts: Vec<(&'static str, Box<[u8]>)>,
}

const _: () = assert!(TABLE.len() <= 256 && SUBCOMMANDS.len() <= 64);

impl Allowed {
    /// Allows a command or not, with its subcommands.
    pub fn set_command(&mut self, at: usize, allowed: bool) {
        let bit = 1 << (at % 64);
        match allowed {
            true => self.commands[at / 64] |= bit,
            false => self.commands[at / 64] &= !bit,
        }
        let name = TABLE[at].name;
        self.firsts.retain(|it| it.0 != name);
        for (at, sub) in SUBCOMMANDS.iter().enumerate() {
            if sub.command == name {
                self.set_subcommand(at, allowed);
            }
        }
    }

    /// Allows a subcommand or not.
    pub fn set_subcommand(&mut self, at: usize, allowed: bool) {
        match allowed {
            true => self.subcommands |= 1 << at,
            false => self.subcommands &= !(1 << at),
        }
    }

    /// Allows a command with a first argument.
    pub fn set_first(&mut self, command: &'static str, first: &[u8]) {
        self.firsts.push((command, first.into()));
    }

    fn has(&self, command: &Command, args: Args<'_>) -> bool {
        let first = args.get(1);
        if is_container(command.name)
            && let Some(sub) = first.and_then(|it| subcommand(command.name, it))
        {
            return self.subcommands & 1 << sub != 0;
        }
        let at = row_of(command);
        let is_this = |it: &(&str, Box<[u8]>)| {
            it.0 == command.name && first.is_some_and(|first| it.1.eq_ignore_ascii_case(first))
        };
        self.commands[at / 64] & 1 << (at % 64) != 0 || self.firsts.iter().any(is_this)
    }
}

/// Why a command is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// The command, or its subcommand.
    Command(String),
    /// One of its keys.
    Key(Vec<u8>),
    /// One of its channels.
    Channel(Vec<u8>),
}

impl User {
    /// One that may do everything, without a password.
    pub fn all_rights() -> User {
        let mut user = User::no_rights();
        for rule in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
            let applied = user.apply(rule.as_bytes());
            debug_assert!(applied.is_ok());
        }
        user
    }

    /// One that may do nothing.
    pub fn no_rights() -> User {
        User {
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            payload: None,
            commands: Allowed::default(),
            command_rules: vec!["-@all".into()],
            all_keys: false,
            keys: Vec::new(),
            all_channels: false,
            channels: Vec::new(),
        }
    }

    /// Gives it this password alone, or has it need none.
    pub fn require(&mut self, password: Option<&str>) {
        self.needs_no_password = password.is_none();
        self.passwords = password
            .iter()
            .map(|it| Password::of(it.as_bytes()))
            .collect();
    }

    /// Whether nothing is refused.
    pub fn has_all_rights(&self) -> bool {
        self.all_keys && self.all_channels && self.command_rules == ["+@all"]
    }

    /// Whether this is a password of it.
    pub fn admits(&self, password: &[u8]) -> bool {
        let given = Password::of(password);
        let is_right = self
            .passwords
            .iter()
            .fold(false, |found, it| found | it.is(&given));
        self.needs_no_password || is_right
    }

    /// Whether it may run a command with these arguments.
    pub fn check(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        if !command.flags.has(Flags::NO_AUTH) && !self.commands.has(command, args) {
            return Err(Denied::Command(full_name(command, args)));
        }
        // Channels that have slots are no keys.
        let has_keys = !matches!(command.name, "ssubscribe" | "spublish");
        if !self.all_keys && has_keys {
            for (number, key) in command.keys.of(args).into_iter().enumerate() {
                let access = access::of(command, args, number);
                let allows = |it: &KeyPattern| {
                    (it.reads || !access.reads)
                        && (it.writes || !access.writes)
                        && matches(&it.pattern, key)
                };
                if !self.keys.iter().any(allows) {
                    return Err(Denied::Key(key.into()));
                }
            }
        }
        let (channels, are_patterns) = match command.name {
            "subscribe" | "ssubscribe" => (args.from(1), false),
            "publish" | "spublish" => (args.from(1), false),
            "cluster" if is_publish(args) => (args.from(2), false),
            "psubscribe" => (args.from(1), true),
            _ => return Ok(()),
        };
        let count = match command.name {
            "publish" | "spublish" | "cluster" => 1,
            _ => channels.len(),
        };
        for channel in channels.iter().take(count) {
            if !self.may_receive(channel, are_patterns) {
                return Err(Denied::Channel(channel.into()));
            }
        }
        Ok(())
    }

    /// Whether it may use a channel, or subscribe to a pattern: that has to be one of its own.
    pub fn may_receive(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |it: &[u8]| match is_pattern {
            true => *it == *channel,
            false => matches(it, channel),
        };
        self.all_channels || self.channels.iter().any(|it| allows(it))
    }
}

/// Whether arguments of `CLUSTER` are a message of another node.
fn is_publish(args: Args<'_>) -> bool {
    args.get(1)
        .is_some_and(|it| it.eq_ignore_ascii_case(b"publish"))
}

/// Where a command stands in the table, which has all of them.
fn row_of(command: &Command) -> usize {
    let from = std::ptr::from_ref(command).addr() - TABLE.as_ptr().addr();
    from / size_of::<Command>()
}

/// A command's name, with its subcommand if it is one.
fn full_name(command: &Command, args: Args<'_>) -> String {
    let sub = args.get(1).filter(|_| is_container(command.name));
    match sub.and_then(|it| subcommand(command.name, it)) {
        Some(sub) => format!("{}|{}", command.name, SUBCOMMANDS[sub].name),
        None => command.name.into(),
    }
}
