//! One page template for reports, evaluations and live runs.
//!
//! One script draws the charts from the JSON that `--json` writes. Rust only inserts the JSON into
//! the template, and below it the same results as text for browsers without scripts. A page in a
//! file is self-contained, and its policy lets it load nothing. The page of a live run loads the
//! style and the script from its server, since its policy allows no inline script.

use serde::Serialize;
use timberline_research::table::TABLE;

const TEMPLATE: &str = include_str!("page.html");
/// Colours of what evaluations compare beside placements, in light and dark pages.
const COLOURS: [(&str, &str, &[&str]); 6] = [
    (
        "#12805c",
        "#3fbd8f",
        &["copies", "copies-offload", "measured", "slow"],
    ),
    ("#2c6fd1", "#6ea6f7", &["dex", "model"]),
    (
        "#c76a00",
        "#f0a04b",
        &["sherman-like", "partitioned", "masking"],
    ),
    ("#8a4fbf", "#c39bee", &["smart-like", "dex-eager", "tiered"]),
    ("#8b97a0", "#77848c", &["baseline", "dram"]),
    ("#b03a5b", "#e57f9c", &["dex-offload", "dex-adaptive"]),
];

/// The style sheet of all pages. The table of placements provides each placement's style.
pub fn style() -> String {
    let mut style = String::from(include_str!("page.css"));
    for row in &TABLE {
        let (name, look) = (row.name.replace('+', "-"), row.style);
        style += &format!(
            ".p-{name} {{ --c: color-mix(in srgb, light-dark({}, {}) {}%, var(--card)); }}\n",
            look.light, look.dark, look.strength
        );
        if !look.dashes.is_empty() {
            let dashes = look.dashes;
            style += &format!(".series.p-{name} {{ stroke-dasharray: {dashes}; }}\n");
        }
    }
    for (light, dark, names) in COLOURS {
        for name in names {
            style += &format!(".p-{name} {{ --c: light-dark({light}, {dark}); }}\n");
        }
    }
    style
}

/// The script of all pages: one module, joined from these parts in order.
pub const SCRIPT: &str = concat!(
    include_str!("shapes.js"),
    include_str!("charts.js"),
    include_str!("report.js"),
    include_str!("eval.js"),
    include_str!("live.js"),
    include_str!("main.js"),
);

/// The content policy of a page in a file: run its inline script, and load nothing.
const POLICY: &str = r#"<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">"#;

/// The kind of a page, which selects a part of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A report of `timberline bench`.
    Bench,
    /// A report of `timberline eval`.
    Eval,
}

/// A self-contained page: `data` as charts, and `text` for browsers without scripts.
pub fn document(kind: Kind, emulated: bool, data: &impl Serialize, text: &str) -> String {
    let (kind, title) = match kind {
        Kind::Bench => ("bench", "timberline bench"),
        Kind::Eval => ("eval", "timberline eval"),
    };
    let title = format!("{title}{}", if emulated { " (emulated)" } else { "" });
    let data = serde_json::to_string(data).expect("numbers and texts");
    // A script element ends at the first `</script`, even within quotes.
    let data = data.replace('<', "\\u003c");
    let text = escape(text);
    let body = format!("<noscript><p>Charts need a script.</p><pre>{text}</pre></noscript>");
    let foot = format!(
        "<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script type=\"module\">\n{SCRIPT}</script>"
    );
    fill(&[
        ("title", &title),
        ("head", &format!("{POLICY}\n<style>\n{}</style>", style())),
        ("kind", kind),
        ("body", &body),
        ("foot", &foot),
    ])
}

/// The page of a live run, which loads `page.css` and `page.js` from its server.
pub fn live() -> String {
    fill(&[
        ("title", "timberline bench, live"),
        ("head", "<link rel=\"stylesheet\" href=\"page.css\">"),
        ("kind", "live"),
        ("body", include_str!("live.html")),
        ("foot", "<script type=\"module\" src=\"page.js\"></script>"),
    ])
}

/// Fills the template's placeholders in order; inserted text is not searched for placeholders.
fn fill(places: &[(&str, &str)]) -> String {
    let (mut page, mut rest) = (String::new(), TEMPLATE);
    for (name, text) in places {
        let (before, after) = rest.split_once(&format!("{{{name}}}")).expect("a place");
        page = page + before + text;
        rest = after;
    }
    page + rest
}

/// `text` as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "</script><script>alert('x')</script>{foot}&\"";

    #[test]
    fn data_stay_data() {
        let page = document(Kind::Bench, false, &[EVIL], EVIL);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<Vec<String>>(data).unwrap(), [EVIL]);
        assert!(page.contains("&lt;/script&gt;"), "in the text, too");
    }

    #[test]
    fn a_page_in_a_file_reaches_for_nothing_outside() {
        for kind in [Kind::Bench, Kind::Eval] {
            let page = document(kind, true, &1, "").replace("http://www.w3.org/2000/svg", "");
            for reference in [
                "http:",
                "https:",
                "src=",
                "url(",
                "@import",
                "rel=\"stylesheet",
            ] {
                assert!(!page.contains(reference), "{reference}");
            }
            assert!(
                page.contains(".p-sidle-layering {"),
                "a name that CSS takes"
            );
            assert!(page.contains("default-src 'none'") && page.contains("(emulated)</title>"));
        }
    }
}
