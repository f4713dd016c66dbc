//! Nodes of a cluster whose slots and leases an etcd has, a process of Debian's `etcd-server`;
//! without it, these tests say so and do nothing.

mod client;
mod nodes;
#[path = "../../remote/tests/patience/mod.rs"]
mod patience;
#[path = "../../remote/tests/etcd/process.rs"]
mod process;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use client::{Folder, Running};
use nodes::{Routed, cluster, id, node, pool, text};
use patience::at_last;
use process::Server as EtcdServer;
use timberline_remote::Error as PoolError;
use timberline_server::{ClusterOptions, Error, Options, Server};

fn kept_by(etcd: &EtcdServer, options: ClusterOptions, lease: u64) -> ClusterOptions {
    ClusterOptions {
        etcd: Some(etcd.etcd()),
        lease: Duration::from_secs(lease),
        ..options
    }
}

/// Increments of keys that one client has alone.
struct Lane {
    acknowledged: [u64; 20],
    /// With those whose reply was an error: they may have been done.
    begun: [u64; 20],
    failed: usize,
}

impl Lane {
    fn run(lane: usize, first: &Running, is_over: &AtomicBool) -> Lane {
        let mut routed = Routed::new(first);
        let mut it = Lane {
            acknowledged: [0; 20],
            begun: [0; 20],
            failed: 0,
        };
        while !is_over.load(Relaxed) {
            for number in 0..20 {
                it.begun[number] += 1;
                let reply = routed.says(&format!("INCR {lane}:{number}"));
                let Some(now) = reply.strip_prefix(':') else {
                    assert!(reply.starts_with('-'), "{reply}");
                    it.failed += 1;
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let now: u64 = now.trim_end().parse().unwrap();
                let may_be = it.acknowledged[number] + 1..=it.begun[number];
                assert!(may_be.contains(&now), "{now} is not in {may_be:?}");
                it.acknowledged[number] = now;
            }
        }
        it
    }
}

/// Slots go to and fro while etcd stops, goes on, is killed and started again: nothing that was
/// acknowledged is lost, and at the end all is served.
#[test]
fn slots_move_while_etcd_stops_and_dies() {
    const LANES: usize = 4;
    let Some(mut etcd) = EtcdServer::start("cluster-moves") else {
        return;
    };
    let servers = pool(2);
    let folders = [Folder::new(), Folder::new()];
    let nodes = folders
        .each_ref()
        .map(|it| node(it, kept_by(&etcd, cluster(&servers), 60)));
    let ids = nodes.each_ref().map(id);
    let is_over = AtomicBool::new(false);
    let (lanes, moves) = thread::scope(|scope| {
        let lane = |lane: usize| {
            let (first, is_over) = (&nodes[lane % 2], &is_over);
            scope.spawn(move || Lane::run(lane, first, is_over))
        };
        let lanes: Vec<_> = (0..LANES).map(lane).collect();
        let moving = scope.spawn(|| {
            let mut clients = nodes.each_ref().map(Running::client);
            let mut moves = [0; 2];
            while !is_over.load(Relaxed) {
                for from in 0..2 {
                    for slots in ["0 5000", "5001 5001", "5002 16383"] {
                        let to = &ids[1 - from];
                        let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slots} NODE {to}");
                        // It is refused where the slots are not this node's, or etcd is silent.
                        moves[from] += usize::from(clients[from].says(&line) == "+OK\r\n");
                    }
                }
            }
            moves
        });
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(300));
            etcd.signal("-STOP");
            thread::sleep(Duration::from_millis(500));
            etcd.signal("-CONT");
            thread::sleep(Duration::from_millis(300));
            etcd.kill();
            thread::sleep(Duration::from_millis(100));
            etcd.restart();
        }
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Relaxed);
        let lanes: Vec<_> = lanes.into_iter().map(|it| it.join().unwrap()).collect();
        (lanes, moving.join().unwrap())
    });
    assert!(moves.iter().all(|it| *it > 0), "{moves:?}");
    let failed: usize = lanes.iter().map(|it| it.failed).sum();
    println!("{moves:?} moves; {failed} increments were refused or may have been done");
    let mut routed = Routed::new(&nodes[0]);
    for (lane, it) in lanes.iter().enumerate() {
        for number in 0..20 {
            let found = at_last(|| {
                let found = routed.says(&format!("GET {lane}:{number}"));
                (!found.starts_with('-')).then_some(found)
            });
            let found: u64 = text(&found).parse().unwrap();
            let may_be = it.acknowledged[number]..=it.begun[number];
            assert!(may_be.contains(&found), "{found} is not in {may_be:?}");
        }
    }
    for node in &nodes {
        at_last(|| {
            let info = node.client().says("CLUSTER INFO");
            info.contains("cluster_state:ok").then_some(())
        });
    }
}

/// While etcd is silent, nodes serve until their leases end, and then say why they do not. If it is
/// started again, they go on. If it was only stopped, it finds that their leases have ended: they
/// end, and others that are started find everything.
#[test]
fn an_etcd_that_is_silent_for_long_is_named() {
    let Some(mut etcd) = EtcdServer::start("cluster-silent") else {
        return;
    };
    let servers = pool(1);
    let folders = [Folder::new(), Folder::new()];
    let first = node(&folders[0], kept_by(&etcd, cluster(&servers), 8));
    let mut client = first.client();
    assert_eq!(client.says("SET key 1"), "+OK\r\n");
    let wait_for_the_end = |etcd: &EtcdServer| {
        etcd.signal("-STOP");
        let address = etcd.address();
        let why = format!("this node's lease has ended: etcd at http://{address}: ");
        at_last(|| {
            let said = first.client().says("GET key");
            let is_said = said.starts_with("-CLUSTERDOWN") && said.contains(&why);
            is_said.then_some(())
        });
    };
    wait_for_the_end(&etcd);
    etcd.restart();
    let found = at_last(|| {
        let found = client.says("GET key");
        (!found.starts_with('-')).then_some(found)
    });
    assert_eq!(text(&found), "1");
    assert_eq!(client.says("SET key 2"), "+OK\r\n");
    wait_for_the_end(&etcd);
    // Half a lease later it has ended for etcd, too.
    thread::sleep(Duration::from_secs(5));
    etcd.signal("-CONT");
    let ended = first.ended();
    let is_fenced = matches!(ended, Err(Error::Cluster(PoolError::Fenced)));
    assert!(is_fenced, "{ended:?}");
    let second = node(&folders[1], kept_by(&etcd, cluster(&servers), 60));
    let mut client = second.client();
    let found = at_last(|| {
        let found = client.says("GET key");
        (!found.starts_with('-')).then_some(found)
    });
    assert_eq!(text(&found), "2");
}

/// All nodes of a cluster have to use the same.
#[test]
fn slots_are_kept_in_one_place() {
    let Some(etcd) = EtcdServer::start("cluster-place") else {
        return;
    };
    let refused = |options: ClusterOptions| {
        let folder = Folder::new();
        let mut all = Options::new(folder.0.join("store"));
        all.listen = vec!["127.0.0.1:0".parse().unwrap()];
        all.cluster = Some(options);
        Server::open(all).err().map(|error| error.to_string())
    };
    let [with, without] = [pool(1), pool(1)];
    let folders = [Folder::new(), Folder::new()];
    let _with = node(&folders[0], kept_by(&etcd, cluster(&with), 60));
    let _without = node(&folders[1], cluster(&without));
    let line = refused(cluster(&with)).unwrap();
    assert!(line.contains("in etcd: say in which (--etcd)"), "{line}");
    let line = refused(kept_by(&etcd, cluster(&without), 60)).unwrap();
    assert!(line.contains("in the pool, not in etcd"), "{line}");
}
