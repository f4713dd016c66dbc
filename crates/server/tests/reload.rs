//! A pool that was lost comes back from the logs of its nodes.

mod client;
mod nodes;

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::Folder;
use nodes::{Routed, cluster, id, move_slots, node, nodes, pool, text};
use timberline_server::{Reloaded, reload};

/// Keys are set, removed and set again while their slots go to and fro, so that each log has old
/// records of many of them. All is lost twice.
#[test]
fn logs_bring_back_what_was_last_written() {
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let dirs: Vec<PathBuf> = folders.iter().map(|it| it.0.join("store")).collect();
    let mut model = BTreeMap::<u64, u64>::new();
    let mut draws = fastrand::Rng::with_seed(5);
    let mut servers = pool(2);
    for round in 0..2 {
        let nodes = nodes(&folders, &servers);
        let ids = nodes.each_ref().map(id);
        let mut routed = Routed::new(&nodes[0]);
        let mut owner = 0;
        for number in 0..3_000 {
            let key = draws.u64(0..300);
            match draws.u8(0..8) {
                0..3 => {
                    model.insert(key, number);
                    assert_eq!(routed.says(&format!("SET key{key} {number}")), "+OK\r\n");
                }
                3..7 => {
                    let was = u8::from(model.remove(&key).is_some());
                    assert_eq!(routed.says(&format!("DEL key{key}")), format!(":{was}\r\n"));
                }
                _ if number % 20 == 0 => {
                    let to = (owner + draws.usize(1..3)) % 3;
                    move_slots(&nodes[owner], 0..=16383, &ids[to]);
                    owner = to;
                }
                _ => {}
            }
        }
        assert!(routed.moved > 5, "round {round}: {}", routed.moved);
        nodes.into_iter().for_each(|it| it.stop());
        servers = pool(3 - round);
        let reloaded = reload(&cluster(&servers), &dirs).unwrap();
        assert_eq!(reloaded.keys, model.len() as u64);
        assert!(reloaded.records > reloaded.keys);
        let back = node(&folders[0], cluster(&servers));
        let mut client = back.client();
        for key in 0..300 {
            let found = client.says(&format!("GET key{key}"));
            match model.get(&key) {
                Some(number) => assert_eq!(text(&found), number.to_string(), "key {key}"),
                None => assert_eq!(found, "$-1\r\n", "key {key}"),
            }
        }
        back.stop();
    }
}

/// A time of expiry is reloaded, too; what is no log, or has been reloaded already, is refused.
#[test]
fn what_cannot_be_reloaded_is_refused() {
    let (folder, other) = (Folder::new(), Folder::new());
    let servers = pool(1);
    let first = node(&folder, cluster(&servers));
    first.client().ask("SET key value EX 1000");
    first.stop();
    node(&other, cluster(&pool(1))).stop();
    let dir = |folder: &Folder| folder.0.join("store");
    let said = |servers: &[_], folders: &[PathBuf]| {
        let error = reload(&cluster(servers), folders).err();
        error.map_or_else(String::new, |it| it.to_string())
    };
    let used = said(&servers, &[dir(&folder)]);
    assert!(used.contains("have data already"), "{used}");
    let mixed = said(&pool(1), &[dir(&folder), dir(&other)]);
    assert!(mixed.contains("is the log of other data"), "{mixed}");
    let none = said(&pool(1), &[folder.0.join("new")]);
    assert!(none.contains("is no log of a node"), "{none}");
    let mut without = cluster(&pool(1));
    without.logs = false;
    let unlogged = Folder::new();
    let alone = node(&unlogged, without);
    alone.client().ask("SET key value");
    assert_eq!(alone.client().says("DEL key"), ":1\r\n");
    alone.stop();
    let unlogged = said(&pool(1), &[dir(&unlogged)]);
    assert!(unlogged.contains("--no-log"), "{unlogged}");
    let servers = pool(1);
    let reloaded = reload(&cluster(&servers), &[dir(&folder)]).unwrap();
    assert_eq!(
        reloaded,
        Reloaded {
            keys: 1,
            records: 1
        }
    );
    let back = node(&folder, cluster(&servers));
    let seconds = back.client().says("TTL key");
    assert!(
        seconds.starts_with(":9") || seconds == ":1000\r\n",
        "{seconds}"
    );
}
