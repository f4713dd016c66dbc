//! How much memory the process's control groups allow (Linux `Documentation/admin-guide/
//! cgroup-v2.rst` and `cgroup-v1/memory.rst`).
//!
//! A limit binds everything below it, so the smallest one from the process's group up to the
//! root counts. In a container the path in `/proc/self/cgroup` is often the host's and is not
//! visible; the mount's root is then the container's own group.

use serde::Serialize;

use super::sysfs::Tree;

/// The tightest limit on the process's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryLimit {
    /// The limit, in bytes.
    pub bytes: u64,
    /// Bytes charged against it already, page cache included; `None` if not readable.
    pub used_bytes: Option<u64>,
    /// The file that sets it, relative to the root.
    pub file: String,
}

/// Version 1 writes the largest page-aligned `i64` for "no limit"; nothing real comes near.
const NO_LIMIT: u64 = 1 << 62;

/// Where one version of control groups keeps these figures.
struct Hierarchy {
    /// Mount points, the usual one first.
    mounts: &'static [&'static str],
    limit: &'static str,
    used: &'static str,
}

const V1: Hierarchy = Hierarchy {
    mounts: &["sys/fs/cgroup/memory"],
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
};

const V2: Hierarchy = Hierarchy {
    // The second is where version 2 is beside version 1.
    mounts: &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
    limit: "memory.max",
    used: "memory.current",
};

pub fn memory_limit(tree: &mut Tree) -> Option<MemoryLimit> {
    let memberships = tree.text("proc/self/cgroup").unwrap_or_default();
    let mut tightest: Option<MemoryLimit> = None;
    for line in memberships.lines() {
        // hierarchy:controllers:path, where version 2 has number 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            tree.note(format!(
                "ignored: \"{}\" in proc/self/cgroup",
                line.escape_debug()
            ));
            continue;
        };
        let hierarchy = match controllers {
            "" if number == "0" => &V2,
            _ if controllers.split(',').any(|name| name == "memory") => &V1,
            _ => continue,
        };
        let found = hierarchy.tightest(tree, path);
        tightest = tightest
            .into_iter()
            .chain(found)
            .min_by_key(|limit| limit.bytes);
    }
    tightest
}

impl Hierarchy {
    fn tightest(&self, tree: &mut Tree, path: &str) -> Option<MemoryLimit> {
        let group = path.trim_matches('/');
        // A path through `..` leads out of the container's namespace.
        let hidden = group.split('/').any(|part| part == "..");
        let visible = self
            .mounts
            .iter()
            .find(|mount| !hidden && tree.exists(&join(mount, group)));
        let (mount, group) = match visible {
            Some(mount) => (mount, group),
            None => {
                let mount = self.mounts.iter().find(|mount| tree.exists(mount))?;
                tree.note(format!(
                    "control group {path} is not visible here: its limit is read at /{mount}"
                ));
                (mount, "")
            }
        };
        let ancestors = std::iter::successors(Some(group), |group| {
            (!group.is_empty()).then(|| group.rsplit_once('/').map_or("", |(parent, _)| parent))
        });
        let limits: Vec<MemoryLimit> = ancestors
            .filter_map(|group| self.limit_of(tree, &join(mount, group)))
            .collect();
        limits.into_iter().min_by_key(|limit| limit.bytes)
    }

    fn limit_of(&self, tree: &mut Tree, group: &str) -> Option<MemoryLimit> {
        let file = join(group, self.limit);
        if tree.text(&file)? == "max" {
            return None;
        }
        let bytes = tree
            .value(&file, "bytes, or max")
            .filter(|&bytes: &u64| bytes < NO_LIMIT)?;
        let used_bytes = tree.value(&join(group, self.used), "bytes");
        Some(MemoryLimit {
            bytes,
            used_bytes,
            file,
        })
    }
}

fn join(directory: &str, name: &str) -> String {
    if name.is_empty() {
        directory.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}
