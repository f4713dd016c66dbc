//! `cargo xtask vm`: boots Linux on machines with two or three kinds of memory, which QEMU
//! emulates, and has our programs show there that discovery, placement and the kernel agree.
//!
//! Invariants: nothing is installed, and all that is fetched or written lies in the target folder;
//! no time is checked, since an emulated machine cannot measure it; without QEMU, nothing counts as
//! checked.

mod checks;
mod count;
mod guest;
mod initramfs;
mod kernel;
mod machine;
mod plugin;
mod scenario;
mod serial;
mod topology;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::args::Args;
use crate::packages::Packages;
use crate::{Failure, exec};
use checks::Findings;
use guest::Program;
use kernel::{Kernel, Release};
use machine::{Boot, Engine, Qemu};
use scenario::{ALL, GATE, SEEDED, Scenario};
use serial::Serial;
use topology::Topology;

/// The folder of all files of this command, below the target folder.
const FOLDER: &str = "vm";
/// The feature of the program with which bugs can be planted.
const BUGS: &str = "seeded-bugs";

/// The command. Without QEMU it is an error.
pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let known: Vec<_> = GATE.into_iter().chain(ALL).collect();
    let names: Vec<_> = known.iter().map(|scenario| scenario.name).collect();
    let args = Args::parse("vm", words, &["--all", "--count", "--seeded-bugs"], &names)?;
    if words.len() > 1 {
        return Err(Failure::Usage("vm takes one flag or one name".into()));
    }
    let tools = Tools::get(root).map_err(Failure::Lacking)?;
    let done = match args.names.first() {
        Some(name) => {
            let named: Vec<_> = known.into_iter().filter(|it| it.name == name).collect();
            tools.check(&named)
        }
        None if args.has("--all") => tools.check(&known),
        None if args.has("--count") => count::run(&tools),
        None if args.has("--seeded-bugs") => tools.find_seeded_bug(),
        None => tools.check(&GATE),
    };
    done.map_err(Failure::Check)
}

/// The programs and files that make a machine.
struct Tools {
    root: PathBuf,
    packages: Packages,
    qemu: Qemu,
}

impl Tools {
    fn get(root: &Path) -> Result<Self, String> {
        let packages = Packages::new(root, FOLDER)?;
        let qemu = Qemu::get(&packages)?;
        Kernel::get(&packages, Release::New)?;
        Ok(Tools {
            root: root.into(),
            packages,
            qemu,
        })
    }

    /// Runs scenarios one after the other; an error if a check fails.
    fn check(&self, scenarios: &[Scenario]) -> Result<(), String> {
        let program = Program::build(&self.root, false, &[])?;
        let mut wrong = 0;
        for scenario in scenarios {
            wrong += self.play(scenario, &program)?.wrong.len();
        }
        match wrong {
            0 => Ok(()),
            wrong => Err(format!("vm: {wrong} checks failed")),
        }
    }

    /// Runs a program with a bug, which is an error unless the checks find it on each machine.
    fn find_seeded_bug(&self) -> Result<(), String> {
        let program = Program::build(&self.root, false, &[BUGS])?;
        for scenario in &SEEDED {
            let findings = self.play(scenario, &program)?;
            // Other failures do not count as a find.
            let mut wrong = findings.wrong.iter();
            if !wrong.any(|line| line.contains("pages elsewhere")) {
                return Err(format!("vm: {} did not find the seeded bug", scenario.name));
            }
        }
        println!("vm: the seeded bug was found");
        Ok(())
    }

    /// Boots, checks, and prints the result.
    fn play(&self, scenario: &Scenario, program: &Program) -> Result<Findings, String> {
        let begun = Instant::now();
        let Scenario {
            name,
            topology,
            release,
            script,
            check,
        } = *scenario;
        let said = self.boot(name, topology, release, &Engine::Fast, program, script)?;
        let findings = check(&Serial::read(&said));
        println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        for line in &findings.held {
            println!("  {line}");
        }
        for line in &findings.wrong {
            println!("  FAILED: {line}");
        }
        Ok(findings)
    }

    fn boot(
        &self,
        name: &str,
        topology: Topology,
        release: Release,
        engine: &Engine,
        program: &Program,
        script: &str,
    ) -> Result<String, String> {
        let folder = self.folder(name)?;
        let kernel = Kernel::get(&self.packages, release)?;
        let archive = guest::archive(
            &self.qemu.busybox(),
            program,
            &kernel,
            topology.modules(),
            script,
        )?;
        let initramfs = folder.join("initramfs");
        fs::write(&initramfs, archive)
            .map_err(|error| format!("{}: {error}", initramfs.display()))?;
        self.qemu.run(&Boot {
            topology,
            engine,
            kernel,
            initramfs,
            folder,
        })
    }

    /// Where files of a scenario go.
    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        exec::folder(&self.root, &format!("vm/machines/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flag_or_name_at_most() {
        for words in [&["--all", "--count"][..], &["cxl", "hmat"], &["--every"]] {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            let refused = run(Path::new("/nonexistent"), &words);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{refused:?}");
        }
    }
}
