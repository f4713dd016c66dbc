//! Groups of comparable outcomes: one index, one workload, one size.
//!
//! Order is kept: groups by their first outcome, outcomes in execution order.

use super::figures;
use super::result::Outcome;

/// Outcomes of one workload, comparable with each other only.
pub struct Group<'a> {
    /// The outcomes; never empty.
    pub members: Vec<&'a Outcome>,
}

pub fn groups(results: &[Outcome]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for outcome in results {
        match groups.iter_mut().find(|group| same(group.first(), outcome)) {
            Some(group) => group.members.push(outcome),
            None => groups.push(Group {
                members: vec![outcome],
            }),
        }
    }
    groups
}

fn same(a: &Outcome, b: &Outcome) -> bool {
    (&a.index, &a.workload, a.records, a.threads) == (&b.index, &b.workload, b.records, b.threads)
}

impl Group<'_> {
    fn first(&self) -> &Outcome {
        self.members[0]
    }

    /// Whether its outcomes are of this map and workload.
    pub fn is_of(&self, index: &str, workload: &str) -> bool {
        (&*self.first().index, &*self.first().workload) == (index, workload)
    }

    pub fn workload(&self) -> &str {
        &self.first().workload
    }

    /// The settings, besides the workload, that all its outcomes share.
    pub fn setting(&self) -> String {
        let first = self.first();
        let plural = if first.threads == 1 { "" } else { "s" };
        let mut text = format!(
            "{} · {} records · {} thread{plural}",
            first.index,
            figures::count(first.records),
            first.threads,
        );
        let budget = first.fast_budget_ratio;
        if self
            .members
            .iter()
            .all(|member| member.fast_budget_ratio == budget)
        {
            text += &format!(" · budget {}", figures::percent(budget));
        }
        text
    }

    /// A member's placement, with its budget if the placement alone is ambiguous.
    pub fn label(&self, outcome: &Outcome) -> String {
        let name = &outcome.placement;
        if self
            .members
            .iter()
            .filter(|member| member.placement == *name)
            .count()
            == 1
        {
            return name.clone();
        }
        format!("{name} @{}", figures::percent(outcome.fast_budget_ratio))
    }

    /// Whether any member's slow memory was emulated.
    pub fn emulated(&self) -> bool {
        self.members.iter().any(|member| member.emulated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(placement: &str, workload: &str, records: u64, budget: f64) -> Outcome {
        Outcome {
            index: "btree".into(),
            placement: placement.into(),
            workload: workload.into(),
            records,
            threads: 1,
            fast_budget_ratio: budget,
            ..Outcome::default()
        }
    }

    #[test]
    fn order_is_kept() {
        let results = [
            outcome("sidle", "hs-c", 2_000_000, 0.2),
            outcome("sidle", "hs-a", 2_000_000, 0.2),
            outcome("sidle", "hs-c", 20_000_000, 0.2),
            outcome("oracle", "hs-c", 2_000_000, 0.2),
        ];
        let groups = groups(&results);
        let found = groups.iter().map(|it| (it.workload(), it.members.len()));
        assert!(found.eq([("hs-c", 2), ("hs-a", 1), ("hs-c", 1)]));
        assert_eq!(
            groups[0].setting(),
            "btree · 2M records · 1 thread · budget 20 %"
        );
        assert_eq!(groups[0].label(groups[0].members[1]), "oracle");
    }

    #[test]
    fn budgets_tell_one_placement_from_itself() {
        let results = [
            outcome("sidle", "hs-c", 5, 0.2),
            outcome("sidle", "hs-c", 5, 0.5),
        ];
        let groups = groups(&results);
        assert_eq!(groups[0].label(&results[1]), "sidle @50 %");
        assert_eq!(groups[0].setting(), "btree · 5 records · 1 thread");
    }
}
