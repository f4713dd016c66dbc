//! A bar chart: clusters of bars over one axis, in as many rows as it takes.
//!
//! Bars of one cluster stand together; colour follows the placement. A bar that would leave the
//! chart ends at its edge and still says its figure.

use super::figures;
use super::svg::{Anchor, Scale, Svg};

/// Width of a chart, which spans the page.
const WIDE: f64 = 1080.0;

/// One figure.
pub struct Bar {
    /// What gives it its colour.
    pub class: &'static str,
    /// What it says when pointed at.
    pub title: String,
    /// Its height.
    pub value: f64,
    /// From the smallest to the largest round.
    pub range: Option<(f64, f64)>,
    /// What others published, from least to most, with its title.
    pub published: Option<((f64, f64), String)>,
}

/// Bars that stand together.
pub struct Cluster {
    /// What stands below them.
    pub name: String,
    /// The bars.
    pub bars: Vec<Bar>,
    /// A limit to draw across the bars, with its title.
    pub limit: Option<(f64, String)>,
}

/// Clusters of bars over one axis.
pub struct BarChart<'a> {
    /// Describes it to those who cannot see it.
    pub label: &'a str,
    /// The axis.
    pub domain: (f64, f64),
    /// Values that mean something, drawn as lines with their names.
    pub marks: &'a [(f64, &'a str)],
}

impl BarChart<'_> {
    /// Clusters side by side, in as many rows as keep the bars wide enough to see.
    pub fn draw(&self, clusters: &[Cluster]) -> Vec<String> {
        const ROOM: f64 = WIDE - 150.0;
        let most = clusters
            .iter()
            .map(|cluster| cluster.bars.len())
            .max()
            .unwrap_or(0)
            + 1;
        let per_row = ((ROOM / (most as f64 * 18.0)) as usize).max(1);
        let rows = clusters.len().div_ceil(per_row).max(1);
        let pitch = ROOM / clusters.len().div_ceil(rows).max(1) as f64;
        let slot = (pitch / most as f64).min(56.0);
        let per_row = clusters.len().div_ceil(rows).max(1);
        clusters
            .chunks(per_row)
            .map(|row| self.row(row, pitch, slot))
            .collect()
    }

    /// One row; each cluster is centred on its `pitch`, each bar has a `slot`.
    fn row(&self, clusters: &[Cluster], pitch: f64, slot: f64) -> String {
        const HEIGHT: f64 = 300.0;
        let (left, right, top, bottom) = (46.0, WIDE - 92.0, 22.0, HEIGHT - 38.0);
        let y = Scale::new(self.domain, (bottom, top));
        let mut svg = Svg::new(WIDE, HEIGHT, self.label);
        svg.y_axis(y, left, right, 6);
        for (value, name) in self.marks {
            svg.line("mark", (left, y.at(*value)), (right, y.at(*value)));
            svg.text(
                "tick",
                (right + 8.0, y.at(*value) + 4.0),
                Anchor::Start,
                name,
            );
        }
        for (nth, cluster) in clusters.iter().enumerate() {
            let middle = left + pitch * (nth as f64 + 0.5);
            let width = slot * cluster.bars.len() as f64;
            let start = middle - width / 2.0;
            if let Some((limit, title)) = &cluster.limit {
                let ends = [
                    (start - 6.0, y.at(*limit)),
                    (start + width + 4.0, y.at(*limit)),
                ];
                svg.path("limit p-oracle", &ends, title);
            }
            for (i, bar) in cluster.bars.iter().enumerate() {
                bar.draw(&mut svg, y, start + slot * i as f64, slot);
            }
            svg.text(
                "name",
                (middle, HEIGHT - 8.0),
                Anchor::Middle,
                &cluster.name,
            );
        }
        svg.finish()
    }
}

impl Bar {
    /// A bar from zero with its range, and with its figure beyond its end where that fits.
    fn draw(&self, svg: &mut Svg, y: Scale, x: f64, slot: f64) {
        let (zero, end) = (y.at(0.0), y.at(self.value));
        let wide = slot - (slot * 0.14).min(4.0);
        let middle = x + wide / 2.0;
        let class = format!("bar {}", self.class);
        let size = (wide, (zero - end).abs().max(1.0));
        svg.rect(&class, (x, end.min(zero)), size, &self.title);
        let (least, most) = self.range.unwrap_or((self.value, self.value));
        if most > least {
            svg.line("whisker", (middle, y.at(least)), (middle, y.at(most)));
        }
        if let Some(((least, most), title)) = &self.published {
            let (top, bottom) = (y.at(*most), y.at(*least));
            let height = (bottom - top).max(2.0);
            svg.rect("published", (x - 1.0, top), (wide + 2.0, height), title);
        }
        if slot >= 28.0 {
            let beyond = if self.value < 0.0 {
                end.max(y.at(least)) + 13.0
            } else {
                end.min(y.at(most)) - 5.0
            };
            svg.text(
                "value",
                (middle, beyond),
                Anchor::Middle,
                &figures::amount(self.value),
            );
        }
    }
}
