//! `cargo xtask vm`: boots Linux on machines with two kinds of memory, which QEMU emulates, and has our programs show there that
//! discovery, placement and the kernel agree.
//!
//! Invariants: nothing is installed, and all that is fetched or written lies in the target folder; no check is of a time, which an
//! emulated machine can't tell; where QEMU can't be had, nothing is taken for checked.

mod checks;
mod guest;
mod initramfs;
mod machine;
mod packages;
mod serial;

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::step::Outcome;
use crate::{Failure, exec};
use checks::Findings;
use guest::Program;
use machine::{Boot, Qemu, Topology};
use packages::{Packages, Release};
use serial::Serial;

const MEMORY: &str = include_str!("guest/memory.sh");

/// What the command line asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Also what is no part of the gate.
    all: bool,
}

impl Options {
    pub fn parse(flags: &[String]) -> Result<Self, Failure> {
        let mut options = Options::default();
        for flag in flags {
            match flag.as_str() {
                "--all" => options.all = true,
                other => {
                    let line = format!("vm does not know `{other}`; it takes --all");
                    return Err(Failure::Usage(line));
                }
            }
        }
        Ok(options)
    }
}

/// The command: a machine that can't run others is an error.
pub fn run(root: &Path, options: &Options) -> Result<(), Failure> {
    let tools =
        Tools::get(root).map_err(|why| Failure::Lacking(format!("skipped: vm because {why}")))?;
    let Options { all: _ } = options;
    tools.check(root).map_err(Failure::Check)
}

/// The step of the gate: skipped where QEMU isn't there and can't be fetched.
pub fn step(root: &Path) -> Outcome {
    match Tools::get(root) {
        Ok(tools) => tools.check(root).into(),
        Err(why) => Outcome::Skipped(why),
    }
}

/// What machines are made of.
struct Tools {
    packages: Packages,
    qemu: Qemu,
}

impl Tools {
    fn get(root: &Path) -> Result<Self, String> {
        let packages = Packages::new(root)?;
        let qemu = Qemu::get(&packages)?;
        packages.kernel(Release::New)?;
        Ok(Tools { packages, qemu })
    }

    fn check(&self, root: &Path) -> Result<(), String> {
        let program = Program::build(root, false, &[])?;
        let mut wrong = 0;
        for topology in [Topology::Hmat, Topology::SoftReserved] {
            let begun = Instant::now();
            let said = self.boot(root, topology, &program, MEMORY)?;
            let findings = checks::two_tiers(topology, &Serial::read(&said));
            wrong += print(topology.name(), &findings, begun);
        }
        match wrong {
            0 => Ok(()),
            wrong => Err(format!("vm: {wrong} checks failed")),
        }
    }

    fn boot(
        &self,
        root: &Path,
        topology: Topology,
        program: &Program,
        script: &str,
    ) -> Result<String, String> {
        let folder = exec::target_dir(root).join("vm").join(topology.name());
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let kernel = self.packages.kernel(Release::New)?;
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
            kernel,
            initramfs,
            folder,
        })
    }
}

fn print(name: &str, findings: &Findings, begun: Instant) -> usize {
    println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
    for line in &findings.held {
        println!("  {line}");
    }
    for line in &findings.wrong {
        println!("  FAILED: {line}");
    }
    findings.wrong.len()
}
