//! The rules that say what a user may do, in Redis' words.

use super::password::Password;
use super::user::{KeyPattern, User};
use crate::command::TABLE;
use crate::command::categories::{Categories, SUBCOMMANDS, is_container, of, subcommand};

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const NO_HASH: &str = "The password hash must be exactly 64 characters and contain only lowercase \
    hexadecimal characters";
const ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid \
    and does not have any effect. Try 'resetkeys' to start with an empty list of patterns";
const ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is \
    not valid and does not have any effect. Try 'resetchannels' to start with an empty list of \
    channels";
const SANITIZE: &str = "sanitize-payload";
const SKIP_SANITIZE: &str = "skip-sanitize-payload";
const SELECTORS: &str = "Selectors are not supported: a user has one set of rules";

impl User {
    /// Applies a rule, or says what is wrong with it.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            b"allkeys" | b"~*" => {
                self.keys.clear();
                self.all_keys = true;
            }
            b"resetkeys" => {
                self.keys.clear();
                self.all_keys = false;
            }
            b"allchannels" | b"&*" => {
                self.channels.clear();
                self.all_channels = true;
            }
            b"resetchannels" => {
                self.channels.clear();
                self.all_channels = false;
            }
            b"allcommands" | b"+@all" => self.all_commands(true),
            b"nocommands" | b"-@all" => self.all_commands(false),
            b"reset" => {
                *self = User::no_rights();
                self.payload = Some(SANITIZE);
            }
            b"sanitize-payload" => self.payload = Some(SANITIZE),
            b"skip-sanitize-payload" => self.payload = Some(SKIP_SANITIZE),
            // There are none.
            b"clearselectors" => {}
            _ => return self.apply_to(rule),
        }
        Ok(())
    }

    /// Applies a rule that names something.
    fn apply_to(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let (&first, rest) = rule.split_first().ok_or(SYNTAX)?;
        match first {
            b'>' => self.add_password(Password::of(rest)),
            b'#' => self.add_password(Password::from_hex(rest).ok_or(NO_HASH)?),
            b'<' => return self.remove_password(&Password::of(rest)),
            b'!' => return self.remove_password(&Password::from_hex(rest).ok_or(NO_HASH)?),
            b'~' => return self.add_keys(true, true, rest),
            b'%' if self.all_keys => return Err(ALL_KEYS),
            b'%' => {
                let at = rest.iter().position(|it| *it == b'~').ok_or(SYNTAX)?;
                let (reads, writes) = match rest[..at].to_ascii_lowercase().as_slice() {
                    b"r" => (true, false),
                    b"w" => (false, true),
                    b"rw" | b"wr" => (true, true),
                    _ => return Err(SYNTAX),
                };
                return self.add_keys(reads, writes, &rest[at + 1..]);
            }
            b'&' => {
                if self.all_channels {
                    return Err(ALL_CHANNELS);
                }
                if !self.channels.iter().any(|it| **it == *rest) {
                    self.channels.push(rest.into());
                }
            }
            b'+' | b'-' => {
                let name = std::str::from_utf8(rest).map_err(|_| UNKNOWN)?;
                return self.allow(&name.to_ascii_lowercase(), first == b'+');
            }
            b'(' => return Err(SELECTORS),
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn add_password(&mut self, password: Password) {
        self.needs_no_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: &Password) -> Result<(), &'static str> {
        let at = self.passwords.iter().position(|it| it == password);
        self.passwords.remove(at.ok_or(NO_SUCH_PASSWORD)?);
        Ok(())
    }

    fn add_keys(&mut self, reads: bool, writes: bool, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(ALL_KEYS);
        }
        match self.keys.iter_mut().find(|it| *it.pattern == *pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern {
                reads,
                writes,
                pattern: pattern.into(),
            }),
        }
        Ok(())
    }

    fn all_commands(&mut self, allowed: bool) {
        (0..TABLE.len()).for_each(|at| self.commands.set_command(at, allowed));
        self.command_rules = vec![if allowed { "+@all" } else { "-@all" }.into()];
    }

    /// Allows a command, a subcommand or a category, in lower case, or not.
    fn allow(&mut self, name: &str, allowed: bool) -> Result<(), &'static str> {
        let row = |name: &str| TABLE.iter().position(|it| it.name == name).ok_or(UNKNOWN);
        if let Some(category) = name.strip_prefix('@') {
            let category = Categories::named(category).ok_or(UNKNOWN)?;
            for (at, command) in TABLE.iter().enumerate() {
                // Those with subcommands have none but that of time: the subcommands say.
                if of(command).meets(category) {
                    self.commands.set_command(at, allowed);
                }
            }
            for (at, sub) in SUBCOMMANDS.iter().enumerate() {
                if sub.categories.meets(category) {
                    self.commands.set_subcommand(at, allowed);
                }
            }
        } else if let Some((command, sub)) = name.split_once('|') {
            let at = row(command)?;
            match subcommand(command, sub.as_bytes()) {
                Some(sub) => self.commands.set_subcommand(sub, allowed),
                None if is_container(command) || !allowed || sub.is_empty() => return Err(UNKNOWN),
                None => self.commands.set_first(TABLE[at].name, sub.as_bytes()),
            }
        } else {
            self.commands.set_command(row(name)?, allowed);
        }
        // A later rule about the same replaces one.
        let is_about = |rule: &str| {
            let about = &rule[1..];
            let of_command = about
                .strip_prefix(name)
                .is_some_and(|it| it.starts_with('|'));
            about == name || of_command
        };
        self.command_rules.retain(|it| !is_about(it));
        let sign = if allowed { '+' } else { '-' };
        self.command_rules.push(format!("{sign}{name}"));
        Ok(())
    }

    /// The rules for its keys.
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule = |it: &KeyPattern| {
            let sign: &[u8] = match (it.reads, it.writes) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            };
            [sign, &it.pattern].concat()
        };
        let rules: Vec<Vec<u8>> = self.keys.iter().map(rule).collect();
        rules.join(&b' ')
    }

    /// The rules for its channels.
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|it| [b"&", &it[..]].concat());
        rules.collect::<Vec<Vec<u8>>>().join(&b' ')
    }

    /// The rules for its commands.
    pub fn command_rules(&self) -> String {
        self.command_rules.join(" ")
    }

    /// Its flags.
    pub fn flags(&self) -> Vec<&'static str> {
        let state = if self.is_on { "on" } else { "off" };
        let nopass = self.needs_no_password.then_some("nopass");
        [state]
            .into_iter()
            .chain(nopass)
            .chain(self.payload)
            .collect()
    }

    /// Hashes of its passwords, in hexadecimal digits.
    pub fn hashes(&self) -> Vec<String> {
        self.passwords.iter().map(Password::hex).collect()
    }

    /// All rules, which make the same user of one without rights.
    pub fn rules(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().iter().map(|it| it.as_bytes().into()).collect();
        words.extend(self.hashes().iter().map(|it| format!("#{it}").into_bytes()));
        words.push(self.key_rules());
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.push(self.channel_rules());
        words.push(self.command_rules().into_bytes());
        words.retain(|it| !it.is_empty());
        words.join(&b' ')
    }
}
