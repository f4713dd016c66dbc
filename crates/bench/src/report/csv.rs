//! The results as comma-separated values (RFC 4180): a row for each placement on each workload,
//! with the names and units of the JSON. Series, rounds, processes and levels are in the JSON only.
//! Of more than two tiers there is a cell with each one's bytes and limit.

use serde_json::Value;

use super::figures;
use super::result::Outcome;
use super::written::Report;

/// The columns, by their names in the JSON: all figures that are one value.
const COLUMNS: &str = "index,placement,workload,records,threads,seconds,fast_budget_ratio,emulated,ops_per_s,\
    ops_per_s_min,ops_per_s_max,p50_ns,p90_ns,p99_ns,p999_ns,unanswered,lines_fast_per_op,\
    lines_slow_per_op,lines_cached_per_op,charged_ns_per_op,waited_ns_per_op,fast_share,\
    fast_share_bound,promoted,demoted,worker_cpu_ratio,worker_cores,ops_per_cpu_s,fast_bytes,\
    slow_bytes,fast_bytes_peak,fast_budget_bytes,over_budget_bytes,misplaced_pages,\
    bytes_per_record,copies_bytes,gap,gap_noise,regained,regained_min,regained_max,\
    regained_low,regained_high,regained_by_charge,regained_by_cpu,regained_by_p50,regained_to_oracle,fast_share_to_oracle,\
    ratio_to_interleave,ratio_to_interleave_low,ratio_to_interleave_high,ratio_to_all_fast,\
    ratio_to_all_fast_low,ratio_to_all_fast_high,ratio_to_oracle,ratio_to_oracle_low,\
    ratio_to_oracle_high,recovery_s,recovery_s_max,\
    fast_share_recovery_s,fast_share_recovery_s_max,tiers,date,profile,seed";

pub fn render(report: &Report) -> String {
    let mut text = format!("{COLUMNS}\r\n");
    for outcome in &report.results {
        let fields = fields(outcome, report);
        text += &row(COLUMNS.split(',').map(|name| &fields[name]));
    }
    text
}

/// The JSON of an outcome, with the metadata that all outcomes of the report share.
fn fields(outcome: &Outcome, report: &Report) -> Value {
    let mut fields = serde_json::to_value(outcome).expect("plain figures and strings");
    fields["tiers"] = figures::tiers(outcome, |bytes| bytes.to_string()).into();
    fields["date"] = report.meta.date.clone().into();
    fields["profile"] = report.meta.profile.clone().into();
    fields["seed"] = report.meta.seed.into();
    fields
}

/// A line of cells.
pub(super) fn row<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(cell).collect::<Vec<_>>().join(",") + "\r\n"
}

/// An absent figure is an empty cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\r', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TierFill;
    use crate::report::tests::samples;

    #[test]
    fn every_figure_has_a_column() {
        let report = samples::report();
        let fields = fields(&report.results[0], &report);
        for (name, value) in fields.as_object().unwrap() {
            let is_known = COLUMNS.split(',').any(|it| it == name);
            assert!(is_known || value.is_array(), "{name}");
        }
        for name in COLUMNS.split(',') {
            assert!(fields.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn more_than_two_tiers_are_one_cell() {
        let mut report = samples::report();
        let tier = |bytes, limit_bytes| TierFill { bytes, limit_bytes };
        report.results[0].tiers = vec![tier(8, Some(10)), tier(20, Some(20)), tier(5, None)];
        let fields = fields(&report.results[0], &report);
        assert_eq!(fields["tiers"], "8/10;20/20;5");
        assert!(render(&report).contains(",8/10;20/20;5,"));
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut report = samples::report();
        report.results[1].workload = "hs-c, \"odd\"".into();
        report.results[1].regained = None;
        let text = render(&report);
        let rows: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(rows.len(), 1 + 14);
        assert!(rows[1].starts_with("btree,all-fast,hs-c,2000000,2,6.0,0.2,true,6100000.0"));
        let odd = "btree,all-slow,\"hs-c, \"\"odd\"\"\",2000000";
        assert!(rows[2].starts_with(odd), "{}", rows[2]);
    }
}
