//! Messages about unknown names, with the known name that was probably meant.

/// Names less similar than this are no suggestion; equal ones have 2.
const SIMILAR: f64 = 1.1;

/// `unknown WHAT NAME`, the most similar known name if one is similar, and all known names. One
/// line.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    format!(
        "unknown {what} `{name}`;{} possible: {}",
        suggestion(name, &known),
        known.join(", ")
    )
}

/// ` did you mean NAME?`, or nothing.
pub fn suggestion(name: &str, known: &[&str]) -> String {
    let lower = name.to_lowercase();
    // The first favours a common beginning, the second counts swapped letters as one mistake.
    let similarity = |known: &str| {
        let swaps = strsim::normalized_damerau_levenshtein(&lower, known);
        strsim::jaro_winkler(&lower, known) + swaps
    };
    let rated = known.iter().map(|known| (similarity(known), known));
    match rated.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((rate, nearest)) if rate > SIMILAR => format!(" did you mean `{nearest}`?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["interleave", "inner-fast", "sidle", "timberline"];
        assert_eq!(
            suggestion("interleaved", &known),
            " did you mean `interleave`?"
        );
        assert_eq!(suggestion("SIDEL", &known), " did you mean `sidle`?");
        assert_eq!(suggestion("optane", &known), "");
        assert_eq!(suggestion("", &known), "");
        let line = unknown("placement", "timberlin", known);
        let expected = "unknown placement `timberlin`; did you mean `timberline`? possible: interleave, inner-fast, sidle, timberline";
        assert_eq!(line, expected);
        assert_eq!(
            unknown("map", "x", ["art"]),
            "unknown map `x`; possible: art"
        );
    }
}
