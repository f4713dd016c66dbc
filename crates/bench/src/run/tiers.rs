//! Memory of more than two tiers, as `--tiers` gives it.

use timberline_tier::TierId;
use timberline_tier::emulator::Base;

use super::plan::{Budget, PROFILES, profile};
use crate::BadInput;

/// The most tiers of a run.
const MOST: usize = 8;
/// What the slowest tier takes.
const REST: &str = "rest";
/// The costs of fast memory by which profiles are compared.
const TYPICAL: Base = Base {
    latency_ns: 100.0,
    line_ns: 4.0,
    shared_line_ns: 0.0,
};

/// The tiers of a run, fastest first. The slowest takes what the others leave.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTiers {
    /// The fast tier.
    pub fast: Budget,
    /// Those between it and the slowest.
    pub middle: Vec<Budget>,
    /// The emulator's profile of all tiers but the fast one; empty for real memory.
    pub profile: String,
}

impl MemoryTiers {
    /// Parses emulated tiers such as `10%,cxl:20%,us1:rest`: a size for each, and for each but the
    /// fast one a profile that is no faster than the one before.
    ///
    /// # Errors
    /// One line: what is wrong, and what is possible.
    pub fn emulated(text: &str) -> Result<MemoryTiers, BadInput> {
        let (mut names, mut sizes) = (Vec::new(), Vec::new());
        for (nth, tier) in text.split(',').enumerate() {
            match (nth, tier.split_once(':')) {
                (0, None) => sizes.push(tier),
                (0, Some((name, size))) => {
                    return bad(
                        text,
                        &format!(
                            "the first is fast memory, which has no profile: give `{size}` for `{name}:{size}`"
                        ),
                    );
                }
                (_, None) => {
                    return bad(
                        text,
                        &format!(
                            "`{tier}` has no profile: give one of {}",
                            PROFILES.join(", ")
                        ),
                    );
                }
                (_, Some((name, size))) => {
                    if !PROFILES.contains(&name) {
                        profile(name)?;
                        return bad(text, &format!("`{name}` is the profile of several tiers"));
                    }
                    names.push(name);
                    sizes.push(size);
                }
            }
        }
        let (fast, middle) = budgets(text, &sizes)?;
        let profile = names.join("+");
        let parsed = self::profile(&profile)?;
        let latency = |tier: usize| parsed.extra(TierId(tier as u8), TYPICAL).latency_ps;
        if let Some(faster) = (2..=names.len()).find(|&tier| latency(tier) < latency(tier - 1)) {
            let [slower, faster] = [names[faster - 2], names[faster - 1]];
            return bad(
                text,
                &format!("{faster} is faster than {slower}: give the fastest first"),
            );
        }
        Ok(MemoryTiers {
            fast,
            middle,
            profile,
        })
    }

    /// Parses tiers of real memory such as `10%,20%,rest`: a size for each.
    ///
    /// # Errors
    /// Like [`MemoryTiers::emulated`].
    pub fn native(text: &str) -> Result<MemoryTiers, BadInput> {
        let sizes: Vec<&str> = text.split(',').collect();
        if let Some(tier) = sizes.iter().find(|size| size.contains(':')) {
            return bad(
                text,
                &format!(
                    "real memory has no profiles: give the size alone for `{tier}`, such as 10%,20%,{REST}"
                ),
            );
        }
        let (fast, middle) = budgets(text, &sizes)?;
        let profile = String::new();
        Ok(MemoryTiers {
            fast,
            middle,
            profile,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.middle.len() + 2
    }
}

fn bad<T>(text: &str, why: &str) -> Result<T, BadInput> {
    Err(BadInput(format!("bad tiers `{text}`: {why}")))
}

/// The sizes of the fast tier and of those between it and the slowest.
fn budgets(text: &str, sizes: &[&str]) -> Result<(Budget, Vec<Budget>), BadInput> {
    if !(2..=MOST).contains(&sizes.len()) {
        let example = "such as 10%,cxl:20%,us1:rest (with --native 10%,20%,rest)";
        return bad(
            text,
            &format!("give 2 to {MOST} tiers, fastest first, {example}"),
        );
    }
    let (last, others) = sizes.split_last().expect("there are two");
    if *last != REST {
        return bad(
            text,
            &format!("the slowest tier takes what is left: give `{REST}` for `{last}`"),
        );
    }
    if others.contains(&REST) {
        return bad(text, &format!("only the last tier may be `{REST}`"));
    }
    let others: Result<Vec<_>, _> = others.iter().map(|size| Budget::parse(size)).collect();
    let others = others?;
    let percent = others.iter().map(|size| match size {
        Budget::Ratio(ratio) => 100.0 * ratio,
        Budget::Bytes(_) => 0.0,
    });
    let percent: f64 = percent.sum();
    if percent >= 100.0 && others.len() > 1 {
        return bad(
            text,
            &format!(
                "{percent} % of the tree leave nothing for the slowest tier: give less than 100 % in all"
            ),
        );
    }
    Ok((others[0], others[1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_have_sizes_and_profiles() {
        let three = MemoryTiers::emulated("10%,cxl:64M,us1:rest").unwrap();
        let expected = MemoryTiers {
            fast: Budget::Ratio(0.1),
            middle: vec![Budget::Bytes(64 << 20)],
            profile: "cxl+us1".into(),
        };
        assert_eq!((three.count(), three), (3, expected));
        let two = MemoryTiers::emulated("20%,rdma:rest").unwrap();
        assert_eq!((two.count(), &*two.profile), (2, "rdma"));
        let four = MemoryTiers::emulated("1G,cxl:20%,cxl:20%,us10:rest").unwrap();
        assert_eq!((four.count(), four.middle.len()), (4, 2));
        let native = MemoryTiers::native("10%,20%,rest").unwrap();
        assert_eq!((native.count(), &*native.profile), (3, ""));
    }

    #[test]
    fn what_are_no_tiers_is_named_with_the_possible() {
        let emulated = MemoryTiers::emulated;
        let native = MemoryTiers::native;
        type Parse = fn(&str) -> Result<MemoryTiers, BadInput>;
        let wrong: [(Parse, &str, &[&str]); 16] = [
            (emulated, "", &["2 to 8", "10%,cxl:20%,us1:rest"]),
            (emulated, "rest", &["2 to 8"]),
            (emulated, "10%", &["2 to 8"]),
            (emulated, "10%,20%,rest", &["`20%`", "profile", "cxl-fpga"]),
            (emulated, "cxl:10%,us1:rest", &["first", "`10%`"]),
            (
                emulated,
                "10%,optane:20%,us1:rest",
                &["optane", "cxl", "us1"],
            ),
            (emulated, "10%,cxl+us1:rest", &["`cxl+us1`", "several"]),
            (emulated, "10%,cxl:20%,us1:70%", &["`rest` for `70%`"]),
            (emulated, "10%,cxl:rest,us1:rest", &["only the last"]),
            (emulated, "10%,cxl:0%,us1:rest", &["`0%`", "64M"]),
            (emulated, "10%,cxl:,us1:rest", &["``", "64M"]),
            (
                emulated,
                "10%,us1:20%,cxl:rest",
                &["cxl is faster than us1"],
            ),
            (emulated, "50%,cxl:50%,us1:rest", &["100 %", "less"]),
            (
                emulated,
                "1M,cxl:1M,cxl:1M,cxl:1M,cxl:1M,cxl:1M,cxl:1M,cxl:1M,us1:rest",
                &["2 to 8"],
            ),
            (native, "10%,cxl:20%,rest", &["`cxl:20%`", "10%,20%,rest"]),
            (native, "10%,20%", &["`rest` for `20%`"]),
        ];
        for (parse, text, said) in wrong {
            let line = parse(text).unwrap_err().to_string();
            assert!(said.iter().all(|it| line.contains(it)), "{text}: {line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
