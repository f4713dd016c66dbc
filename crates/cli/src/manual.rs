//! `timberline completions` and `timberline man`: made from the arguments themselves.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Failure;
use crate::say::write_out;

#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
pub struct Page {
    /// The command of the page, such as `bench` or `measure micro` [default: an overview]
    command: Vec<String>,
}

/// Prints the completions of a shell.
pub fn completions(args: &Completions, mut timberline: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut timberline, "timberline", &mut script);
    write_out(&script)
}

/// The commands that a command has.
fn names(command: &Command) -> String {
    let names = command.get_subcommands().map(Command::get_name);
    names.collect::<Vec<_>>().join(", ")
}

/// The commands that there are where this process was given one that there is not.
pub fn possible(timberline: &Command) -> String {
    let mut command = timberline;
    for word in std::env::args_os().skip(1) {
        match command.find_subcommand(word) {
            Some(within) => command = within,
            None => break,
        }
    }
    names(command)
}

/// Prints a manual page, as `man -l` reads it.
pub fn page(args: &Page, mut timberline: Command) -> Result<(), Failure> {
    timberline.build();
    let mut words = args.command.iter().flat_map(|it| it.split_whitespace());
    let command = words.try_fold(&timberline, |within, name| {
        within.find_subcommand(name).ok_or_else(|| {
            Failure::Impossible(match names(within).as_str() {
                "" => format!("`{}` has no command `{name}`", within.get_name()),
                names => format!("unknown command `{name}`; possible: {names}"),
            })
        })
    })?;
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    rendered.map_err(Failure::failed)?;
    write_out(&page)
}
