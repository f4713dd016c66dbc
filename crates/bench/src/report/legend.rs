//! What the shapes of charts stand for.

use super::svg::{escape, placement_class};

/// Placements in the order they first appear, each once and drawn as in its chart: by a line where `lined`
/// says so, else by a bar.
pub fn placements<'a>(
    placements: impl Iterator<Item = &'a str>,
    lined: impl Fn(&str) -> bool,
) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for placement in placements {
        if !seen.contains(&placement) {
            seen.push(placement);
        }
    }
    keys(seen.into_iter().map(|placement| {
        let class = placement_class(placement);
        let shape = match lined(placement) {
            true => line(class),
            false => {
                format!("<rect class=\"bar {class}\" width=\"12\" height=\"12\" x=\"6\" y=\"1\"/>")
            }
        };
        (shape, placement)
    }))
}

/// A line of this class.
pub fn line(class: &str) -> String {
    format!("<path class=\"series {class}\" d=\"M0 7L24 7\"/>")
}

/// A filled area of this class.
pub fn area(class: &str) -> String {
    format!("<rect class=\"{class}\" width=\"24\" height=\"10\" y=\"2\"/>")
}

/// Shapes with what they stand for.
pub fn keys<'a>(entries: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let mut text = String::from("<ul class=\"legend\">\n");
    for (shape, name) in entries {
        text += &format!(
            "<li><svg viewBox=\"0 0 24 14\" aria-hidden=\"true\">{shape}</svg>{}</li>\n",
            escape(name)
        );
    }
    text + "</ul>\n"
}
