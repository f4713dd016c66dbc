//! A control group for one process: a limit of its memory, with the page cache that it fills.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The memory controller of version 1, and of version 2.
const V1: &str = "/sys/fs/cgroup/memory";
const V2: &str = "/sys/fs/cgroup";

/// Removed when this is dropped, if no process is in it.
pub struct Group(PathBuf);

impl Group {
    /// Makes one that has at most this much memory.
    pub fn new(name: &str, bytes: u64) -> Result<Group, String> {
        let (root, limit) = match Path::new(V1).join("memory.limit_in_bytes").exists() {
            true => (V1, "memory.limit_in_bytes"),
            false => (V2, "memory.max"),
        };
        let name = format!("timberline-stores-{}-{name}", std::process::id());
        let group = Group(Path::new(root).join(name));
        let made = fs::create_dir(&group.0)
            .and_then(|()| fs::write(group.0.join(limit), bytes.to_string()));
        let failed = |error: io::Error| format!("{}: {error}", group.0.display());
        made.map_err(failed)?;
        Ok(group)
    }

    /// Starts a program in it, by a shell that moves itself there and becomes the program.
    pub fn spawn(&self, program: Command) -> io::Result<Child> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"))
            .arg(program.get_program())
            .args(program.get_args());
        let set = program.get_envs();
        shell.envs(set.filter_map(|(name, value)| Some((name, value?))));
        shell.stdout(std::process::Stdio::piped()).spawn()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
