//! Slots that follow the load, between nodes in this process.

mod client;
mod nodes;
#[path = "../../remote/tests/patience/mod.rs"]
mod patience;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use client::{Folder, Running};
use nodes::{Routed, cluster, node, pool, slots_of, text};
use patience::at_last;
use timberline_remote::Balancing;
use timberline_server::Balance;

const NODES: usize = 3;
const PERIOD: Duration = Duration::from_millis(300);
const LANES: usize = 4;
/// Slots that all requests are about: at first they are one node's.
const HOT: usize = 42;

/// Nodes that came one after the other, and each have a share of the slots.
fn start(folders: &[Folder; NODES], balance: Balance) -> [Running; NODES] {
    let servers = pool(2);
    let nodes = folders.each_ref().map(|folder| {
        let mut options = cluster(&servers);
        options.balance = balance;
        node(folder, options)
    });
    at_last(|| {
        let shares = shares(&nodes[0]);
        let have_some = shares.iter().filter(|it| **it > 0).count() == NODES;
        // A share of whoever comes is of one node's slots, or of two.
        (have_some && shares.iter().sum::<usize>() == 16_384).then_some(())
    });
    nodes
}

/// How many slots each node has.
fn shares(node: &Running) -> Vec<usize> {
    let lines = node.client().says("CLUSTER NODES");
    text(&lines).lines().map(slots_of).collect()
}

/// Hash tags of slots that are all the first node's.
fn hot_tags(nodes: &[Running; NODES]) -> Vec<String> {
    at_last(|| {
        let tags = tags_of(&nodes[0]);
        // A part of the last one's share may still have been on its way.
        (served(nodes, &tags) == [HOT, 0, 0]).then_some(tags)
    })
}

/// Hash tags of slots that are this node's.
fn tags_of(node: &Running) -> Vec<String> {
    let mut client = node.client();
    let mut tags = Vec::new();
    for number in 0.. {
        let tag = format!("{{{number}}}");
        if !client.says(&format!("GET {tag}")).starts_with("-MOVED") {
            tags.push(tag);
        }
        if tags.len() == HOT {
            break;
        }
    }
    tags
}

/// How many of these tags' slots each node serves.
fn served(nodes: &[Running; NODES], tags: &[String]) -> [usize; NODES] {
    nodes.each_ref().map(|node| {
        let mut client = node.client();
        let mut serves = |tag: &String| !client.says(&format!("GET {tag}")).starts_with("-MOVED");
        tags.iter().filter(|tag| serves(tag)).count()
    })
}

fn moves(nodes: &[Running; NODES]) -> u64 {
    let moves = nodes
        .iter()
        .map(|it| it.client().info::<u64>("cluster", "cluster_balance_moves"));
    moves.sum()
}

/// Runs something while clients increment keys of all tags alike, each its own. Every increment is
/// acknowledged, and none is lost.
fn under_load<T>(nodes: &[Running; NODES], tags: &[String], work: impl FnOnce() -> T) -> T {
    /// Ends the clients also if the work fails: the scope waits for them.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let lane = |lane: usize| {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut draws = fastrand::Rng::with_seed(lane as u64);
                let mut routed = Routed::new(&nodes[lane % NODES]);
                let mut counts = vec![0_u64; tags.len()];
                while !is_over.load(Relaxed) {
                    let at = draws.usize(0..tags.len());
                    counts[at] += 1;
                    let reply = routed.says(&format!("INCR {}:{lane}", tags[at]));
                    assert_eq!(reply, format!(":{}\r\n", counts[at]));
                }
                for (tag, count) in tags.iter().zip(counts) {
                    let found = routed.says(&format!("INCRBY {tag}:{lane} 0"));
                    assert_eq!(found, format!(":{count}\r\n"));
                }
            })
        };
        let lanes: Vec<_> = (0..LANES).map(lane).collect();
        let result = work();
        drop(over);
        lanes.into_iter().for_each(|it| it.join().unwrap());
        result
    })
}

/// All requests are about slots of one node. They are spread, and then nothing moves any more.
#[test]
fn slots_follow_the_load_and_then_stay() {
    let folders = [(); NODES].map(|()| Folder::new());
    let balance = Balance::Load(Balancing {
        period: PERIOD,
        sampled: 1,
        ..Balancing::default()
    });
    let nodes = start(&folders, balance);
    let info = nodes[0].client().says("CLUSTER INFO");
    assert!(info.contains("cluster_balance:load\r\n"), "{info}");
    let tags = hot_tags(&nodes);
    under_load(&nodes, &tags, || {
        let spread = at_last(|| {
            let served = served(&nodes, &tags);
            let is_spread = served.iter().max() < Some(&(HOT / 2));
            is_spread.then_some(served)
        });
        let rest = at_last(|| {
            let before = moves(&nodes);
            thread::sleep(8 * PERIOD);
            (moves(&nodes) == before).then_some(before)
        });
        println!("{spread:?} of {HOT} slots after at most {rest} moves");
        assert!(rest > 0);
    });
    let info = nodes[0].client().says("CLUSTER INFO");
    assert!(info.contains("cluster_state:ok\r\n"), "{info}");
    assert_eq!(shares(&nodes[0]).iter().sum::<usize>(), 16_384);
}

/// Without the option slots stay where they are, whatever they are asked for.
#[test]
fn slots_stay_unless_it_is_asked_for() {
    let folders = [(); NODES].map(|()| Folder::new());
    let nodes = start(&folders, Balance::Slots);
    // Until the shares are even.
    let shares_before = at_last(|| {
        let shares = shares(&nodes[0]);
        let are_even = shares.iter().all(|share| *share > 4_000);
        are_even.then_some(shares)
    });
    let tags = hot_tags(&nodes);
    under_load(&nodes, &tags, || thread::sleep(10 * PERIOD));
    assert_eq!(moves(&nodes), 0);
    assert_eq!(shares(&nodes[0]), shares_before);
    assert_eq!(served(&nodes, &tags), [HOT, 0, 0]);
    let kept: String = nodes[0].client().info("cluster", "cluster_balance");
    assert_eq!(kept, "slots");
}
