//! A machine with two kinds of memory, as arguments of QEMU.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::packages::{Kernel, Packages};
use crate::exec;

/// What firmware says of the fast node and the slow one.
pub const LATENCY_NS: [u64; 2] = [80, 250];
pub const BANDWIDTH_MBS: [u64; 2] = [102_400, 25_600];

/// Memory of each of the two nodes, MiB.
pub const MIB: u64 = 512;
/// Where the slow memory of a machine begins if it is above 4 GiB.
const HIGH: &str = "0x100000000";
/// Kernels that don't come up are ended; the slowest takes a minute on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// How a machine's slow memory is presented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A NUMA node without CPUs, with its speed in the firmware's HMAT.
    Hmat,
    /// The same, set aside by the firmware for special purposes, as CXL memory is; a driver hands it out.
    SoftReserved,
}

impl Topology {
    /// Kernel modules to load, in this order.
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Topology::Hmat => &[],
            Topology::SoftReserved => &["dax/device_dax", "dax/hmem/dax_hmem", "dax/kmem"],
        }
    }

    fn command_line(self) -> String {
        let general = "console=ttyS0 panic=-1 nokaslr norandmaps mitigations=off quiet loglevel=1";
        match self {
            Topology::Hmat => general.into(),
            Topology::SoftReserved => {
                format!(
                    "{general} memhp_default_state=online_movable memmap={MIB}M%{HIGH}-1+0xefffffff"
                )
            }
        }
    }

    fn arguments(self) -> Vec<String> {
        let machine = match self {
            Topology::Hmat => "q35,hmat=on".into(),
            // The slow node has to begin above 4 GiB: no more than the fast one lies below.
            Topology::SoftReserved => format!("q35,hmat=on,max-ram-below-4g={MIB}M"),
        };
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: String| arguments.extend([name.to_string(), value]);
        add("-M", machine);
        add("-m", format!("{}M", 2 * MIB));
        for node in 0..2 {
            add(
                "-object",
                format!("memory-backend-ram,id=m{node},size={MIB}M"),
            );
        }
        add("-numa", "node,nodeid=0,memdev=m0".into());
        add("-numa", "cpu,node-id=0,socket-id=0".into());
        add("-numa", "node,nodeid=1,memdev=m1,initiator=0".into());
        add("-numa", "dist,src=0,dst=1,val=20".into());
        for node in 0..2 {
            let of = format!("hmat-lb,initiator=0,target={node},hierarchy=memory,data-type=access");
            add(
                "-numa",
                format!("{of}-latency,latency={}", LATENCY_NS[node]),
            );
            add(
                "-numa",
                format!("{of}-bandwidth,bandwidth={}M", BANDWIDTH_MBS[node]),
            );
        }
        arguments
    }
}

/// A program that emulates machines.
pub struct Qemu {
    /// The root that it was unpacked below; it runs with the libraries from there.
    tools: PathBuf,
}

impl Qemu {
    pub fn get(packages: &Packages) -> Result<Self, String> {
        let tools = packages.tools()?;
        Ok(Qemu { tools })
    }

    pub fn busybox(&self) -> PathBuf {
        self.tools.join("bin/busybox")
    }

    /// Boots a machine and waits for its end. Returns what it wrote to its serial line.
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
            .args(["-cpu", "max"])
            .args(boot.engine.arguments())
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
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
                let why = errors.lines().last().unwrap_or("it says nothing");
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
    /// One core whose clock counts instructions, four nanoseconds each, so that a run can be repeated; watched by this plugin.
    Counting(String),
}

impl Engine {
    fn arguments(&self) -> Vec<&str> {
        match self {
            Engine::Fast => vec!["-smp", "2,sockets=1,cores=2", "-accel", "tcg,thread=multi"],
            Engine::Counting(plugin) => vec![
                "-smp",
                "1,sockets=1,cores=1",
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=2,sleep=off",
                "-rtc",
                "base=2025-01-01,clock=vm",
                "-seed",
                "7",
                "-plugin",
                plugin,
            ],
        }
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
