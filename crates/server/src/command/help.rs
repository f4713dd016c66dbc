//! Subcommands: which there are, and errors about them.

use super::categories::{SUBCOMMANDS, subcommand};
use super::{Call, Done, Failure};

impl Call<'_> {
    /// The reply to `HELP`, and the error of a subcommand that is unknown or does not take as many
    /// arguments.
    pub fn help_or_unknown(&mut self) -> Done {
        if self.is(1, "help") && self.args.len() == 2 {
            self.help();
            return Ok(());
        }
        let Some(at) = subcommand(self.command.name, self.arg(1)) else {
            return Err(self.unknown_subcommand());
        };
        let name = SUBCOMMANDS[at].name;
        Err(match (self.command.name, name) {
            // Some of their arguments may be left out, so there are too many.
            ("acl", "cat" | "genpass" | "log")
            | ("pubsub", "channels" | "shardchannels")
            | ("slowlog", "get") => self.wrong_arguments(),
            _ => self.wrong_arity(name),
        })
    }

    /// Replies with the command's subcommands, in the form of Redis' help.
    fn help(&mut self) {
        let name = self.command.name;
        let all = SUBCOMMANDS.iter().filter(|it| it.command == name);
        let mut names: Vec<&str> = all.map(|it| it.name).filter(|it| *it != "help").collect();
        names.sort_unstable();
        self.out.array(names.len() + 3);
        self.out.simple(&format!(
            "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            name.to_uppercase()
        ));
        for name in names {
            self.out.simple(&name.to_uppercase());
        }
        self.out.simple("HELP");
        self.out.simple("    Prints this help.");
    }

    /// The error of an unknown subcommand.
    fn unknown_subcommand(&self) -> Failure {
        let sub = String::from_utf8_lossy(self.arg(1));
        let sub: String = sub.chars().take(128).collect();
        Failure::said(format!(
            "ERR unknown subcommand '{sub}'. Try {} HELP.",
            self.command.name.to_uppercase()
        ))
    }

    /// The error of a subcommand with too many arguments where some may be left out.
    pub fn wrong_arguments(&self) -> Failure {
        Failure::said(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
            String::from_utf8_lossy(self.arg(1)),
            self.command.name.to_uppercase()
        ))
    }

    /// The error of a subcommand with too few or too many arguments.
    pub fn wrong_arity(&self, sub: &str) -> Failure {
        Failure::said(format!(
            "ERR wrong number of arguments for '{}|{sub}' command",
            self.command.name
        ))
    }
}
