//! Rows of the table for the placement of the library itself.

use timberline_placement::{Timberline, TimberlineConfig};

use crate::table::{Kind, Made, Make, Row, Setup, Style};

const STYLE: Style = Style::of("#12805c", "#3fbd8f");

pub(crate) const ROW: Row = Row {
    more_tiers: true,
    kind: Kind::Adaptive,
    style: STYLE,
    ..Row::new(
        "timberline",
        "hot slow leaves change places with cold fast ones; hot records are copied",
        Make::Nodes(|setup| make(setup, TimberlineConfig::default())),
    )
};

pub(crate) const LEAVES: Row = Row {
    more_tiers: true,
    kind: Kind::Adaptive,
    style: STYLE.pale(70),
    ..Row::new(
        "timberline-leaves",
        "timberline that moves whole leaves only and copies no records",
        Make::Nodes(|setup| {
            let config = TimberlineConfig {
                copies: 0.0,
                ..TimberlineConfig::default()
            };
            make(setup, config)
        }),
    )
};

pub(crate) const PAUSED: Row = Row {
    more_tiers: true,
    kind: Kind::Paused,
    style: STYLE.pale(45),
    ..Row::new(
        "timberline-paused",
        "timberline whose workers pause while it is measured: shows the cost of migration to requests",
        ROW.make,
    )
};

fn make(setup: &Setup<'_>, config: TimberlineConfig) -> Result<Made, String> {
    let ours = Timberline::new(setup.arenas, setup.heat, config);
    let ours = ours.map_err(|error| format!("{error}, or give more --records"))?;
    let workers = ours.workers();
    Ok(Made::with_workers(ours, workers))
}
