//! The live view without a browser: snapshots of turns, and access to the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use timberline_placement::View;

use super::*;
use crate::report::LevelFill;
use crate::report::progress::{Levels, MemoryUse, Silent, Watched};

/// A map of two levels, with this many of its ten leaves fast.
struct Fake {
    placement: &'static str,
    fast: u64,
}

impl Watched for Fake {
    fn index(&self) -> &'static str {
        "btree"
    }

    fn placement(&self) -> &'static str {
        self.placement
    }

    fn is_emulated(&self) -> bool {
        true
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            of_pages: self.fast == 0,
            used_bytes: 10 << 10,
            committed_bytes: Some(4096),
            budget_bytes: Some(4096),
            usable_bytes: Some(4000),
        }
    }

    fn view(&self) -> Option<View> {
        Some(View {
            unit: "accesses",
            bins: vec![0, 2],
            counts: vec![("leaves", vec![7, 3])],
            thresholds: vec![("hot", 2.0)],
            watermarks: vec![("high watermark", 0.95)],
            figures: vec![("P_hot (%)", 5.0)],
        })
    }

    fn levels(&self) -> Option<Levels> {
        let level = |level, nodes_fast, nodes_slow| LevelFill {
            level,
            nodes_fast,
            nodes_slow,
            ..LevelFill::default()
        };
        (self.fast > 0).then(|| Levels {
            fills: vec![level(0, 1, 0), level(1, self.fast, 10 - self.fast)],
            copies_bytes: 0,
            above_boundary: 0,
        })
    }
}

fn turn(map: &Fake, measured: bool) -> Turn<'_> {
    Turn {
        workload: "<b>&",
        measured,
        map,
    }
}

fn live() -> Live {
    Live::start(0, Box::new(Silent)).unwrap()
}

/// The response to these bytes: head and body.
fn ask(address: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

fn get(live: &Live, path: &str) -> (String, String) {
    let address = live.address;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    ask(address, request.as_bytes())
}

fn snapshot(live: &Live) -> Value {
    let (head, body) = get(live, "/snapshot");
    assert!(head.contains("application/json"), "{head}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_snapshot_says_whose_turn_it_is_and_keeps_the_others() {
    let live = live();
    let before = snapshot(&live);
    assert_eq!(before["rows"], Value::Array(Vec::new()));
    live.phase("hs-c: loading sidle", Some(10));
    live.advance(4, 1e6, None);
    let loading = snapshot(&live);
    assert_eq!(
        (&loading["done"], &loading["total"]),
        (&4.into(), &10.into())
    );

    let (sidle, tpp) = (
        &Fake {
            placement: "sidle",
            fast: 3,
        },
        &Fake {
            placement: "tpp",
            fast: 0,
        },
    );
    let mut latencies = Histogram::new(3).unwrap();
    (1..=1000).for_each(|ns| latencies.record(ns).unwrap());
    live.turn_begins(turn(sidle, false));
    let sample = Sample {
        ops_per_s: 2e6,
        promoted: 5,
        ..Sample::default()
    };
    live.turn_goes(turn(sidle, false), &sample);
    let now = snapshot(&live);
    assert_eq!((&now["turn"], &now["running"]), (&0.into(), &true.into()));
    assert_eq!(now["workload"], "<b>&", "the page escapes it");
    assert_eq!(now["rows"][0]["latencies_ns"], Value::Null);
    live.turn_ends(turn(sidle, false), &latencies);
    live.turn_begins(turn(tpp, true));

    let now = snapshot(&live);
    assert!(now["version"].as_u64() > loading["version"].as_u64());
    assert_eq!((&now["turn"], &now["over"]), (&1.into(), &false.into()));
    let (first, second) = (&now["rows"][0], &now["rows"][1]);
    assert_eq!(first["placement"], "sidle");
    assert_eq!(first["samples"][0]["ops_per_s"], 2e6);
    assert_eq!(first["latencies_ns"].to_string(), "[500,900,990,999]");
    assert_eq!(first["levels"][1]["nodes_fast"], 3);
    assert_eq!(first["memory"]["budget_bytes"], 4096);
    assert_eq!(
        first["heat"]["counts"][0].to_string(),
        r#"["leaves",[7,3]]"#
    );
    assert_eq!(first["heat"]["watermarks"][0][1], 0.95);
    assert_eq!(second["measured"], true);
    assert_eq!(second["levels"], Value::Null, "its pages are moved");

    live.turn_ends(turn(tpp, true), &latencies);
    live.finish();
    let over = snapshot(&live);
    assert_eq!(
        (&over["over"], &over["running"]),
        (&true.into(), &false.into())
    );
    assert_eq!(over["rows"].as_array().unwrap().len(), 2, "figures stay");
}

#[test]
fn maps_of_another_workload_begin_anew() {
    let live = live();
    let map = &Fake {
        placement: "sidle",
        fast: 3,
    };
    live.turn_begins(turn(map, true));
    live.turn_begins(Turn {
        workload: "ycsb-a",
        ..turn(map, true)
    });
    let now = snapshot(&live);
    assert_eq!(now["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&now["workload"], &now["rows"][0]["turns"]),
        (&"ycsb-a".into(), &1.into())
    );
}

#[test]
fn nodes_are_counted_between_turns_and_only_quickly_within() {
    let map = Fake {
        placement: "sidle",
        fast: 3,
    };
    let mut row = row::Row::new("sidle");
    assert!(
        row.wants_levels(false) && !row.wants_levels(true),
        "none yet"
    );
    row.set_levels(map.levels(), Duration::from_secs(9));
    assert!(
        !row.wants_levels(false) && !row.wants_levels(true),
        "too long"
    );
    let mut row = row::Row::new("sidle");
    row.set_levels(map.levels(), Duration::ZERO);
    assert!(row.wants_levels(false));
    assert!(!row.wants_levels(true), "not twice within a moment");
}

#[test]
fn the_page_and_all_it_needs_are_here() {
    let live = live();
    let (head, page) = get(&live, "/");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/html"));
    assert!(head.contains("Content-Security-Policy: default-src 'none'"));
    for name in ["page.css", "page.js"] {
        assert!(page.contains(&format!("\"{name}\"")), "{name}");
        assert!(get(&live, &format!("/{name}?v=1")).0.contains("200 OK"));
    }
    assert!(get(&live, "/../Cargo.toml").0.contains("404"));
    assert!(!page.contains("//"), "nothing from elsewhere");
}

#[test]
fn strangers_get_a_line() {
    let address = live().address;
    let status = |request: &[u8]| ask(address, request).0[9..12].to_string();
    assert_eq!(
        status(b"GET /snapshot HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        "421"
    );
    assert_eq!(status(b"\0\x01\x02 nonsense\r\n\r\n"), "400");
    let long = [b"GET /".to_vec(), vec![b'a'; 8 << 10]].concat();
    assert_eq!(status(&long), "431");
    let request = format!("HEAD / HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (head, body) = ask(address, request.as_bytes());
    assert!(head.contains("200 OK") && body.is_empty());
}

#[test]
fn who_says_nothing_holds_up_nobody() {
    let live = live();
    let silent: Vec<_> = (0..8)
        .map(|_| TcpStream::connect(live.address).unwrap())
        .collect();
    assert!(get(&live, "/").0.contains("200 OK"));
    let map = &Fake {
        placement: "sidle",
        fast: 3,
    };
    live.turn_begins(turn(map, true));
    assert_eq!(snapshot(&live)["running"], true);
    // Silent clients get a timeout or nothing.
    for mut stream in silent {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(text.is_empty() || text.contains("408"), "{text}");
    }
}

#[test]
fn a_crowd_is_let_in_in_turns() {
    let live = live();
    let crowd: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(live.address).unwrap())
        .collect();
    drop(crowd);
    // The server notices that admitted clients have disconnected.
    let answered = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        let mut text = String::new();
        let mut stream = TcpStream::connect(live.address).unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", live.address);
        let asked = stream.write_all(request.as_bytes());
        asked.is_ok() && stream.read_to_string(&mut text).is_ok() && text.contains("200 OK")
    });
    assert!(answered);
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let first = live();
    assert!(Live::start(first.address.port(), Box::new(Silent)).is_err());
    assert_eq!(first.url(), format!("http://{}/", first.address));
    assert!(first.address.ip().is_loopback());
}
