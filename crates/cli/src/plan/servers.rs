//! `timberline plan --capacity`: the cheapest servers, with and without CXL.

use serde_json::{Value, json};
use timberline_bench::report::grid::Grid;
use timberline_model::dimms::{Parts, Server};

use crate::Failure;
use crate::say::say;

pub fn run(parts: &Parts, capacities_tib: &[f64], as_json: bool) -> Result<(), Failure> {
    if as_json {
        let all: Vec<Value> = capacities_tib
            .iter()
            .map(|&tib| row_json(parts, tib))
            .collect();
        return say(format_args!("{:#}", json!({ "servers": all })));
    }
    let mut grid = Grid::new([
        (["", "TiB"], false),
        (["without CXL", "DIMMs"], true),
        (["", "price"], false),
        (["with CXL", "DIMMs and devices"], true),
        (["", "price"], false),
        (["", "saved"], false),
    ]);
    for &tib in capacities_tib {
        let [without, with] = cheapest(parts, tib);
        let price = |server: &Option<Server>| {
            server.map_or("–".to_owned(), |server| format!("{:.0}", server.price))
        };
        let saved =
            saved(without, with).map_or("–".to_owned(), |part| format!("{:.0} %", 100.0 * part));
        grid.row(vec![
            format!("{tib}"),
            described(parts, without),
            price(&without),
            described(parts, with),
            price(&with),
            saved,
        ]);
    }
    say(grid.render().trim_end())
}

/// The cheapest server without devices, and the cheapest with any number of them.
fn cheapest(parts: &Parts, tib: f64) -> [Option<Server>; 2] {
    [0, parts.devices].map(|devices| parts.cheapest(tib * 1024.0, devices))
}

fn saved(without: Option<Server>, with: Option<Server>) -> Option<f64> {
    Some(1.0 - with?.price / without?.price)
}

fn described(parts: &Parts, server: Option<Server>) -> String {
    let Some(server) = server else {
        return "none has as much".to_owned();
    };
    let dimms = format!(
        "{} × {} GiB",
        server.processors * parts.slots,
        server.dimm.gib
    );
    match server.devices {
        0 => dimms,
        devices => format!("{dimms} + {devices}"),
    }
}

fn row_json(parts: &Parts, tib: f64) -> Value {
    let [without, with] = cheapest(parts, tib);
    let object = |server: Option<Server>| {
        server.map(|it| {
            json!({
                "processors": it.processors, "dimms": it.processors * parts.slots,
                "dimm_gib": it.dimm.gib, "devices": it.devices, "gib": it.gib, "price": it.price,
            })
        })
    };
    json!({
        "tib": tib, "without_cxl": object(without), "with_cxl": object(with),
        "saved": saved(without, with),
    })
}
