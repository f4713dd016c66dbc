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
    let most = match parts.devices {
        1 => "1 device".to_owned(),
        devices => format!("{devices} devices"),
    };
    let mut grid = Grid::new([
        (["", "TiB"], false),
        (["without", "CXL"], true),
        (["", "price"], false),
        (["up to", "1 device"], true),
        (["", "price"], false),
        (["", "saved"], false),
        (["up to", &most], true),
        (["", "price"], false),
        (["", "saved"], false),
    ]);
    for &tib in capacities_tib {
        let [without, one, any] = cheapest(parts, tib);
        let mut cells = vec![format!("{tib}"), described(parts, without), price(without)];
        for with in [one, any] {
            cells.extend([described(parts, with), price(with), percent(without, with)]);
        }
        grid.row(cells);
    }
    say(format_args!(
        "{}\n\nDIMMs × GiB of each, + devices on CXL of {} GiB; – where no server has as much",
        grid.render().trim_end(),
        parts.device_gib
    ))
}

/// The cheapest server without devices, with at most one, and with any number of them.
fn cheapest(parts: &Parts, tib: f64) -> [Option<Server>; 3] {
    [0, parts.devices.min(1), parts.devices].map(|most| parts.cheapest(tib * 1024.0, most))
}

fn saved(without: Option<Server>, with: Option<Server>) -> Option<f64> {
    Some(1.0 - with?.price / without?.price)
}

fn price(server: Option<Server>) -> String {
    server.map_or("–".to_owned(), |server| format!("{:.0}", server.price))
}

fn percent(without: Option<Server>, with: Option<Server>) -> String {
    saved(without, with).map_or("–".to_owned(), |part| format!("{:.0} %", 100.0 * part))
}

fn described(parts: &Parts, server: Option<Server>) -> String {
    let Some(server) = server else {
        return "–".to_owned();
    };
    let dimms = format!("{}×{}", server.processors * parts.slots, server.dimm.gib);
    match server.devices {
        0 => dimms,
        devices => format!("{dimms} + {devices}"),
    }
}

fn row_json(parts: &Parts, tib: f64) -> Value {
    let [without, one, any] = cheapest(parts, tib);
    let object = |server: Option<Server>| {
        server.map(|it| {
            json!({
                "processors": it.processors, "dimms": it.processors * parts.slots,
                "dimm_gib": it.dimm.gib, "devices": it.devices, "gib": it.gib, "price": it.price,
            })
        })
    };
    json!({
        "tib": tib, "without_cxl": object(without), "with_one_device": object(one),
        "saved_by_one": saved(without, one), "with_cxl": object(any),
        "saved": saved(without, any),
    })
}
