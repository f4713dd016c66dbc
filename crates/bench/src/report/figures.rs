//! Formats figures for readers: three significant digits, the unit, and `–` where a figure is
//! absent.

use super::paired::{Ratio, Standing};
use super::result::{Outcome, TierFill};

/// The text for an absent figure.
pub const ABSENT: &str = "–";

/// Decimals that give `value` three significant digits.
fn decimals(value: f64) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 2;
    }
    // Nudged up, so that a value that rounds up to a power of ten counts as one.
    let magnitude = (value.abs() * 1.0005).log10().floor() as i32;
    (2 - magnitude).clamp(0, 6) as usize
}

/// `median [min, max]`, all with the median's number of decimals.
pub fn range(median: f64, min: f64, max: f64) -> String {
    let digits = decimals(median);
    format!("{median:.digits$} [{min:.digits$}, {max:.digits$}]")
}

/// From `least` to `most`; an infinite `most` is an open end.
pub fn span(least: f64, most: f64) -> String {
    let amount = |value: f64| format!("{value:.*}", decimals(value));
    match (least, most) {
        (least, f64::INFINITY) => format!("above {}", amount(least)),
        (least, most) if least == most => amount(least),
        (0.0, most) => format!("up to {}", amount(most)),
        (least, most) => format!("{}–{}", amount(least), amount(most)),
    }
}

/// A throughput of `ops` a second with its range, in millions.
pub fn mops(ops: f64, min: f64, max: f64) -> String {
    range(ops / 1e6, min / 1e6, max / 1e6)
}

/// A throughput of `ops` a second without its range, in millions.
pub fn mops_alone(ops: f64) -> String {
    let mops = ops / 1e6;
    format!("{mops:.*}", decimals(mops))
}

/// A fraction or ratio, with its range if it has one.
pub fn share_range(median: Option<f64>, min: Option<f64>, max: Option<f64>) -> String {
    match (median, min, max) {
        (None, ..) => ABSENT.into(),
        (Some(median), Some(min), Some(max)) => format!("{median:.2} [{min:.2}, {max:.2}]"),
        (Some(median), ..) => format!("{median:.2}"),
    }
}

/// A fraction or ratio.
pub fn share(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.into(), |value| format!("{value:.2}"))
}

/// A ratio as a percentage.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value >= 9.95 {
        format!("{value:.0} %")
    } else {
        format!("{value:.1} %")
    }
}

pub fn count(n: u64) -> String {
    if n < 1000 {
        return n.to_string();
    }
    let (value, unit) = scaled(n as f64);
    let text = format!("{value:.*}", decimals(value));
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{unit}")
}

fn scaled(value: f64) -> (f64, &'static str) {
    match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// Latencies given in ns, in µs.
pub fn micros<const N: usize>(ns: [u64; N]) -> String {
    ns.map(|ns| format!("{:.*}", decimals(ns as f64 / 1e3).min(2), ns as f64 / 1e3))
        .join("/")
}

const BINARY: [(u64, &str); 4] = [
    (1 << 40, "TiB"),
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
];

fn binary(bytes: u64) -> (f64, &'static str) {
    BINARY
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .map_or((1.0, "B"), |(unit, name)| (unit as f64, name))
}

/// A size in bytes.
pub fn bytes(bytes: u64) -> String {
    let (unit, name) = binary(bytes);
    let value = bytes as f64 / unit;
    format!(
        "{value:.*} {name}",
        if unit == 1.0 { 0 } else { decimals(value) }
    )
}

/// A size over its limit, in one unit; a `whole` of 0 means no limit.
pub fn bytes_of(part: u64, whole: u64) -> String {
    if whole == 0 {
        return bytes(part);
    }
    let (unit, name) = binary(part.max(whole));
    let (part, whole) = (part as f64 / unit, whole as f64 / unit);
    let digits = if unit == 1.0 { 0 } else { decimals(whole) };
    format!("{part:.digits$}/{whole:.digits$} {name}")
}

/// An outcome's throughput with its range, in millions a second.
pub fn throughput(outcome: &Outcome) -> String {
    let Outcome {
        ops_per_s,
        ops_per_s_min,
        ops_per_s_max,
        ..
    } = outcome;
    mops(*ops_per_s, *ops_per_s_min, *ops_per_s_max)
}

/// A ratio with its 95 % interval, and what this says: `>` ahead, `<` behind, `~` undecided.
pub fn ratio(median: Option<f64>, interval: Option<Ratio>) -> String {
    let Some(interval) = interval else {
        return share(median);
    };
    let sign = match interval.standing() {
        Standing::Ahead => '>',
        Standing::Behind => '<',
        Standing::Undecided => '~',
    };
    let range = share_range(median, Some(interval.low), Some(interval.high));
    format!("{range} {sign}")
}

/// An outcome's `regained`, with its 95 % interval.
pub fn regained(outcome: &Outcome) -> String {
    if outcome.regained.is_none() && outcome.gap.is_some() {
        return "within noise".into();
    }
    share_range(
        outcome.regained,
        outcome.regained_low,
        outcome.regained_high,
    )
}

/// `regained` by what the emulator charged, by throughput per CPU time, and by the median latency.
pub fn regained_otherwise(outcome: &Outcome) -> String {
    let by = [
        outcome.regained_by_charge,
        outcome.regained_by_cpu,
        outcome.regained_by_p50,
    ];
    by.map(share).join("/")
}

/// Slow lines of a request, and what the emulator charged for them, ns.
pub fn slow_lines(outcome: &Outcome) -> String {
    let (lines, charged) = (outcome.lines_slow_per_op, outcome.charged_ns_per_op);
    format!("{lines:.2}/{charged:.0}")
}

/// Each tier's bytes, and its limit if it has one, where there are more than two.
pub fn tiers(outcome: &Outcome, bytes: impl Fn(u64) -> String) -> String {
    let tier = |it: &TierFill| match it.limit_bytes {
        Some(limit) => format!("{}/{}", bytes(it.bytes), bytes(limit)),
        None => bytes(it.bytes),
    };
    outcome.tiers.iter().map(tier).collect::<Vec<_>>().join(";")
}

/// Promoted and demoted nodes or pages.
pub fn moves(outcome: &Outcome) -> String {
    format!("{}/{}", count(outcome.promoted), count(outcome.demoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        assert_eq!(mops(12_345_678.0, 11e6, 13e6), "12.3 [11.0, 13.0]");
        assert_eq!(
            mops(1_234.0, 1_200.0, 1_300.0),
            "0.00123 [0.00120, 0.00130]"
        );
        assert_eq!(micros([0, 312, 1_940, 31_940]), "0.00/0.31/1.94/31.9");
        assert_eq!(percent(0.0042), "0.4 %");
        assert_eq!(percent(0.2), "20 %");
    }

    #[test]
    fn a_span_may_have_one_end() {
        assert_eq!(span(1.3, 1.8), "1.30–1.80");
        assert_eq!(span(1.001, f64::INFINITY), "above 1.00");
        assert_eq!(span(0.0, 0.28), "up to 0.280");
        assert_eq!(span(2.0, 2.0), "2.00");
    }

    #[test]
    fn counts_drop_zeros_that_say_nothing() {
        assert_eq!(count(999), "999");
        assert_eq!(count(2_000_000), "2M");
        assert_eq!(count(20_500_000), "20.5M");
        assert_eq!(count(100_000), "100k");
        assert_eq!(count(999_999), "1M");
    }

    #[test]
    fn memory_shares_a_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(40 << 20), "40.0 MiB");
        assert_eq!(bytes_of(1 << 19, 8 << 20), "0.50/8.00 MiB");
        assert_eq!(bytes_of(5, 0), "5 B");
    }

    #[test]
    fn a_ratio_has_a_sign_where_it_has_an_interval() {
        let of = |low, high| ratio(Some(1.2), Ratio::between(Some(1.2), Some(low), Some(high)));
        assert_eq!(of(1.1, 1.3), "1.20 [1.10, 1.30] >");
        assert_eq!(of(1.0, 1.3), "1.20 [1.00, 1.30] ~");
        assert_eq!(of(0.8, 0.9), "1.20 [0.80, 0.90] <");
        assert_eq!(ratio(Some(1.2), None), "1.20");
    }

    #[test]
    fn absent_figures_are_dashes() {
        assert_eq!(share(None), "–");
        assert_eq!(share_range(None, None, None), "–");
        assert_eq!(share_range(Some(0.5), None, None), "0.50");
        assert_eq!(
            share_range(Some(-0.5), Some(-0.6), Some(0.1)),
            "-0.50 [-0.60, 0.10]"
        );
    }
}
