//! Where this process's bound pages are, by `/proc/self/numa_maps` (Linux
//! `Documentation/filesystems/proc.rst`): a line for each mapping, with its policy and the pages on
//! each NUMA node.

use timberline_tier::topology::NodeList;

/// Pages of 4 KiB of mappings that are bound to the same NUMA nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BoundPages {
    /// On one of these nodes.
    pub there: u64,
    /// On another one.
    pub elsewhere: u64,
}

/// The pages of all mappings that are bound to `nodes`, in the text of `numa_maps`.
pub fn bound_to(nodes: &NodeList, text: &str) -> BoundPages {
    let mut pages = BoundPages::default();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1);
        let policy = words.next().and_then(|policy| policy.strip_prefix("bind:"));
        let bound: Option<NodeList> = policy.and_then(|list| list.parse().ok());
        if bound.as_ref() != Some(nodes) {
            continue;
        }
        let values: Vec<(&str, u64)> = words
            .filter_map(|word| word.split_once('='))
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect();
        let size = values.iter().find(|(name, _)| *name == "kernelpagesize_kB");
        let small = size.map_or(1, |(_, kib)| kib / 4);
        for (name, count) in values {
            let node = name.strip_prefix('N').and_then(|node| node.parse().ok());
            match node {
                Some(node) if nodes.contains(node) => pages.there += count * small,
                Some(_) => pages.elsewhere += count * small,
                None => {}
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_policy_and_node() {
        let text = "7f0000000000 bind:1 anon=66 dirty=66 N1=64 N0=2 kernelpagesize_kB=4\n\
                    7f0000400000 bind:1 anon=1 dirty=1 N1=1 kernelpagesize_kB=2048\n\
                    7f0000800000 bind:0-1 anon=8 N0=5 N1=3 kernelpagesize_kB=4\n\
                    7f0000c00000 bind:2\n\
                    7f0001000000 default file=/bin/x mapped=9 N0=9 kernelpagesize_kB=4\n";
        let of = |nodes: &str| {
            let BoundPages { there, elsewhere } = bound_to(&nodes.parse().unwrap(), text);
            (there, elsewhere)
        };
        assert_eq!(of("1"), (64 + 512, 2));
        assert_eq!(of("0-1"), (8, 0));
        assert_eq!(of("2"), (0, 0));
        assert_eq!(of("0"), (0, 0), "no mapping is bound to it");
    }
}
