//! The frame of a chart over time: half as wide as the page, measured time below it, a figure that begins at 0 beside it.

use super::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 528.0;
const HEIGHT: f64 = 270.0;

/// A chart under way.
pub struct TimeFrame {
    /// What is drawn so far: the axes.
    pub svg: Svg,
    x: Scale,
    y: Scale,
}

impl TimeFrame {
    /// The axes of a chart that `label` describes, with room for `until` seconds and figures up to `most`, in `unit`; `None` where there is
    /// nothing to show.
    pub fn new(label: &str, unit: &str, until: f64, most: f64) -> Option<TimeFrame> {
        if until <= 0.0 || most <= 0.0 {
            return None;
        }
        let (left, right, top, bottom) = (46.0, WIDTH - 12.0, 26.0, HEIGHT - 40.0);
        let x = Scale::new((0.0, until), (left, right));
        let y = Scale::new((0.0, most * 1.06), (bottom, top));
        let mut svg = Svg::new(WIDTH, HEIGHT, label);
        svg.y_axis(y, left, right, 5);
        let (ticks, digits) = x.ticks(6);
        for tick in ticks {
            svg.text(
                "tick",
                (x.at(tick), bottom + 18.0),
                Anchor::Middle,
                &format!("{tick:.digits$}"),
            );
        }
        svg.text("axis", (left - 38.0, top - 12.0), Anchor::Start, unit);
        svg.text(
            "axis",
            (right, HEIGHT - 5.0),
            Anchor::End,
            "measured time, s",
        );
        svg.line("mark", (left, bottom), (right, bottom));
        Some(TimeFrame { svg, x, y })
    }

    /// Where a figure at a time lies.
    pub fn point(&self, at_s: f64, figure: f64) -> (f64, f64) {
        (self.x.at(at_s), self.y.at(figure))
    }
}
