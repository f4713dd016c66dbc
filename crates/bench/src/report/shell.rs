//! What every page has: its frame and style, its head, and the mark of the emulator.

use super::svg::escape;

/// The style sheet.
pub const STYLE: &str = include_str!("page.css");
/// The mark on everything that comes from the emulator.
pub const BADGE: &str = r#" <span class="badge">emulated</span>"#;

/// The mark, where it is due.
pub fn badge(emulated: bool) -> &'static str {
    if emulated { BADGE } else { "" }
}

/// A whole page that needs nothing but itself.
pub fn document(title: &str, emulated: bool, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        if emulated { " (emulated)" } else { "" }
    )
}

/// The title with what is to be known first.
pub fn head(title: &str, emulated: bool, facts: &[(&str, String)]) -> String {
    let mut text = format!("<header>\n<h1>{title}{}</h1>\n<dl>\n", badge(emulated));
    for (name, value) in facts {
        text += &format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value));
    }
    text + "</dl>\n</header>\n"
}
