//! What the kernel does with pages by itself: settings that change what a measurement means.

use serde::Serialize;

use super::sysfs::Tree;

/// Page sizes and automatic page movement. `None` is a kernel without it, or one that hides it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct KernelSettings {
    /// Bytes in a base page.
    pub page_bytes: Option<u64>,
    /// Bytes in a transparent huge page.
    pub huge_page_bytes: Option<u64>,
    /// When anonymous memory gets transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// `kernel.numa_balancing`: 0 is off, bit 0 moves pages to the CPUs that use them, bit 1
    /// promotes hot pages to faster tiers.
    pub numa_balancing: Option<u32>,
    /// Whether reclaim moves cold pages to slower tiers instead of discarding them.
    pub demotion: Option<bool>,
}

impl KernelSettings {
    pub(super) fn read(tree: &mut Tree) -> KernelSettings {
        let thp = "sys/kernel/mm/transparent_hugepage";
        let kilobytes = |text: String| text.strip_suffix("kB")?.trim().parse::<u64>().ok();
        KernelSettings {
            page_bytes: tree
                .line_after("proc/self/smaps", "KernelPageSize:")
                .and_then(kilobytes)
                .map(|kib| kib << 10),
            huge_page_bytes: tree.value(&format!("{thp}/hpage_pmd_size"), "bytes"),
            transparent_huge_pages: tree
                .text(&format!("{thp}/enabled"))
                .and_then(|text| chosen(&text).map(str::to_owned)),
            numa_balancing: tree.value("proc/sys/kernel/numa_balancing", "0 to 3"),
            demotion: tree
                .text("sys/kernel/mm/numa/demotion_enabled")
                .and_then(|text| match text.as_str() {
                    "true" | "1" => Some(true),
                    "false" | "0" => Some(false),
                    _ => None,
                }),
        }
    }

    /// Whether memory that asks for huge pages (`madvise`) can get them.
    pub fn huge_pages_on_request(&self) -> bool {
        matches!(
            self.transparent_huge_pages.as_deref(),
            Some("always" | "madvise")
        )
    }
}

/// The bracketed word in `always [madvise] never`.
fn chosen(choices: &str) -> Option<&str> {
    let (_, rest) = choices.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracketed_choice_is_the_one_in_force() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("[always] madvise never"), Some("always"));
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(chosen("]["), None);
    }
}
