//! QEMU: boots a machine, and returns its output.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::kernel::{Kernel, Release};
use super::topology::Topology;
use crate::exec;
use crate::packages::Packages;

/// Kernels that don't come up are ended; the slowest takes a minute on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// A program that emulates machines.
pub struct Qemu {
    /// The root that it was unpacked below; it runs with the libraries from there.
    tools: PathBuf,
}

impl Qemu {
    pub fn get(packages: &Packages) -> Result<Self, String> {
        let wanted = ["qemu-system-x86", "busybox-static"];
        let tools = packages.programs("tools", Release::New.suite(), &wanted)?;
        Ok(Qemu { tools })
    }

    pub fn busybox(&self) -> PathBuf {
        self.tools.join("bin/busybox")
    }

    /// Boots a machine and waits for its end. Returns the output on its serial line.
    pub fn run(&self, boot: &Boot) -> Result<String, String> {
        let at = |path: &str| self.tools.join(path);
        let libraries = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
        let mut qemu = Command::new(at("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
        qemu.arg("--library-path")
            .arg(
                libraries
                    .map(|path| at(path).display().to_string())
                    .join(":"),
            )
            .arg(at("usr/bin/qemu-system-x86_64"));
        for folder in ["usr/share/qemu", "usr/share/seabios"] {
            qemu.arg("-L").arg(at(folder));
        }
        let serial = boot.folder.join("serial.txt");
        let file = |path: &Path| {
            File::create(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        qemu.args(boot.topology.arguments())
            .args(boot.engine.arguments())
            .args("-nodefaults -no-user-config -display none -no-reboot".split(' '))
            .arg("-serial")
            .arg(format!("file:{}", serial.display()))
            .arg("-kernel")
            .arg(&boot.kernel.image)
            .arg("-initrd")
            .arg(&boot.initramfs)
            .args(["-append", &boot.topology.command_line()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file(&boot.folder.join("qemu.txt"))?);
        let status = qemu
            .spawn()
            .and_then(|qemu| exec::wait(qemu, LIMIT))
            .map_err(|error| format!("QEMU could not be run: {error}"))?;
        let said = std::fs::read(&serial).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).replace('\r', "");
        match status {
            Some(status) if status.success() => Ok(said),
            Some(status) => {
                let errors =
                    std::fs::read_to_string(boot.folder.join("qemu.txt")).unwrap_or_default();
                let why = errors.lines().last().unwrap_or("without a message");
                Err(format!("QEMU ended with {status}: {why}"))
            }
            None => Err(format!(
                "the machine did not end within {} s (see {})",
                LIMIT.as_secs(),
                serial.display()
            )),
        }
    }
}

/// How the processor is emulated.
pub enum Engine {
    /// Two cores, as fast as it goes.
    Fast,
    /// One core whose clock counts instructions, four nanoseconds each, so that a run can be
    /// repeated; watched by this plugin.
    Counting(String),
}

impl Engine {
    fn arguments(&self) -> Vec<&str> {
        let (text, plugin) = match self {
            Engine::Fast => ("-smp 2,sockets=1,cores=2 -accel tcg,thread=multi", None),
            Engine::Counting(plugin) => (
                "-smp 1,sockets=1,cores=1 -accel tcg,thread=single -icount shift=2,sleep=off \
                 -rtc base=2025-01-01,clock=vm -seed 7 -plugin",
                Some(plugin.as_str()),
            ),
        };
        text.split(' ').chain(plugin).collect()
    }
}

/// What is booted.
pub struct Boot<'a> {
    pub topology: Topology,
    pub engine: &'a Engine,
    pub kernel: Kernel,
    pub initramfs: PathBuf,
    /// Where its output goes.
    pub folder: PathBuf,
}
