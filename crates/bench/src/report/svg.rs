//! Just enough SVG for the charts of a report: shapes with a class, text that is escaped, scales.
//!
//! Colours are never written here: a shape names its class and the page's style sheet knows light
//! from dark. Every shape that carries a figure carries it as a `<title>` too, which browsers show
//! as a tooltip and screen readers read out.

use std::fmt::Write;

/// `text` with everything that HTML or an attribute would read as markup made harmless.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// The class that gives a placement its colour, the same one in every chart.
pub fn placement_class(placement: &str) -> &'static str {
    match placement {
        "timberline" => "p-timberline",
        "timberline-leaves" => "p-timberline-leaves",
        "timberline-paused" => "p-timberline-paused",
        "sidle" => "p-sidle",
        "sidle+layering" => "p-sidle-1",
        "sidle+tracking" => "p-sidle-2",
        "sidle+migration" => "p-sidle-3",
        "sidle+histogram" => "p-sidle-4",
        "sidle+watermark" => "p-sidle",
        "oracle" => "p-oracle",
        "all-fast" => "p-all-fast",
        "all-slow" => "p-all-slow",
        "interleave" => "p-interleave",
        "inner-fast" => "p-inner-fast",
        "random" => "p-random",
        "tpp" => "p-tpp",
        "autonuma" => "p-autonuma",
        "damon" => "p-damon",
        "memtis" => "p-memtis",
        "caption" => "p-caption",
        "oracle-pages" => "p-oracle-pages",
        _ => "p-other",
    }
}

/// Where text is held.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// Begins at its point.
    Start,
    /// Is centred on its point.
    Middle,
    /// Ends at its point.
    End,
}

/// A drawing under way. Lengths are in its own units, which are CSS pixels at full width.
pub struct Svg {
    text: String,
}

impl Svg {
    /// An empty drawing that `label` describes to those who cannot see it.
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        let mut text = String::new();
        let label = escape(label);
        let _ = write!(
            text,
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{label}">"#
        );
        Self { text }
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.text,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A line through `points`, titled.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        let _ = write!(self.text, r#"<path class="{class}" d=""#);
        for (i, (x, y)) in points.iter().enumerate() {
            let step = if i == 0 { 'M' } else { 'L' };
            let _ = write!(self.text, "{step}{x:.1} {y:.1}");
        }
        let _ = write!(self.text, r#""><title>{}</title></path>"#, escape(title));
    }

    /// A rectangle, titled. Sizes below zero draw nothing.
    pub fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), title: &str) {
        let ((x, y), (w, h)) = (corner, (size.0.max(0.0), size.1.max(0.0)));
        let title = escape(title);
        let _ = write!(
            self.text,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"><title>{title}</title></rect>"#
        );
    }

    /// A place that shows `title` when pointed at.
    pub fn spot(&mut self, class: &str, at: (f64, f64), title: &str) {
        let (x, y) = at;
        let title = escape(title);
        let _ = write!(
            self.text,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="5"><title>{title}</title></circle>"#
        );
    }

    /// A line of text.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (x, y) = at;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = write!(
            self.text,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// Grid lines from `left` to `right` for about `wanted` values of `y`, with their figures.
    pub fn y_axis(&mut self, y: Scale, left: f64, right: f64, wanted: usize) {
        let (ticks, digits) = y.ticks(wanted);
        for tick in ticks {
            let at = y.at(tick);
            self.line("grid", (left, at), (right, at));
            self.text(
                "tick",
                (left - 8.0, at + 4.0),
                Anchor::End,
                &format!("{tick:.digits$}"),
            );
        }
    }

    /// The whole drawing.
    pub fn finish(self) -> String {
        self.text + "</svg>"
    }
}

/// Maps figures to positions, linearly; figures outside are held at the edge.
#[derive(Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// `low` lies at `from` and `high` at `to`; where they are equal, everything lies at `from`.
    pub fn new((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self {
            low,
            high,
            from,
            to,
        }
    }

    /// Where `value` lies.
    pub fn at(&self, value: f64) -> f64 {
        if self.high <= self.low {
            return self.from;
        }
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// About `wanted` round values from low to high, and the digits after the point they need.
    pub fn ticks(&self, wanted: usize) -> (Vec<f64>, usize) {
        let span = self.high - self.low;
        if span.is_nan() || span <= 0.0 || wanted == 0 {
            return (vec![self.low], 0);
        }
        let raw = span / wanted as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step
            .into_iter()
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(10.0 * power);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let (first, last) = (
            (self.low / step - 1e-9).ceil() as i64,
            (self.high / step + 1e-9).floor() as i64,
        );
        ((first..=last).map(|i| i as f64 * step).collect(), digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_made_harmless() {
        assert_eq!(
            escape(r#"<a href="x">&'"#),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;"
        );
        let mut svg = Svg::new(10.0, 10.0, "\"<");
        svg.text("t", (0.0, 0.0), Anchor::Start, "</svg>");
        svg.rect("r", (0.0, 0.0), (1.0, -1.0), "a & b");
        let text = svg.finish();
        assert_eq!(text.matches("</svg>").count(), 1);
        assert!(text.contains("aria-label=\"&quot;&lt;\""));
        assert!(text.contains("height=\"0.0\"") && text.contains("a &amp; b"));
    }

    #[test]
    fn scales_hold_what_is_outside_at_the_edge() {
        let scale = Scale::new((0.0, 2.0), (100.0, 0.0));
        assert_eq!(
            (scale.at(1.0), scale.at(9.0), scale.at(-9.0)),
            (50.0, 0.0, 100.0)
        );
        assert_eq!(Scale::new((3.0, 3.0), (7.0, 9.0)).at(3.0), 7.0);
    }

    #[test]
    fn ticks_are_round() {
        let (ticks, digits) = Scale::new((-0.3, 1.1), (0.0, 1.0)).ticks(6);
        assert_eq!(digits, 1);
        let text: Vec<String> = ticks
            .iter()
            .map(|tick| format!("{tick:.digits$}"))
            .collect();
        assert_eq!(text, ["0.0", "0.5", "1.0"]);
        assert_eq!(
            Scale::new((0.0, 60.0), (0.0, 1.0)).ticks(6).0.last(),
            Some(&60.0)
        );
        assert_eq!(Scale::new((1.0, 1.0), (0.0, 1.0)).ticks(4).0, [1.0]);
    }
}
