//! Simulated clusters: members come, go, stop and die, and keys change hands.

#[path = "../asked/mod.rs"]
mod asked;
mod histories;
#[path = "../linear/mod.rs"]
mod linear;
mod requests;
mod world;

use std::rc::Rc;

use histories::History;
use requests::LONGEST_NS;
use timberline_remote::ServerId;
use timberline_remote::fabric::{Network, Simulation};
use world::World;

/// The first seed of a test's clusters.
fn first_seed() -> u64 {
    match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 0,
    }
}

/// Clusters of a test.
fn clusters() -> u64 {
    if cfg!(debug_assertions) { 20 } else { 1_000 }
}

fn network() -> Network {
    Network {
        jitter: 2.0,
        deadline_ns: 50_000,
        find_ns: [0, 100],
        ..Network::default()
    }
}

/// The same, where some requests and answers are lost.
fn lossy() -> Network {
    Network {
        lost: 0.001,
        unanswered: 0.001,
        ..network()
    }
}

/// Members come, go, stop for a while, and die, keys change hands, answers are lost, and clocks
/// run at different rates: what was acknowledged is read back, and nothing stale is.
///
/// Without write-through, what a dead member had not written may be lost; then a key has a value
/// that it had at some time.
#[test]
fn clusters_change_and_keep_what_they_acknowledged() {
    let (mut moves, mut merges, mut inner) = (0, 0, 0);
    for seed in first_seed()..first_seed() + clusters() {
        println!("TIMBERLINE_SEED={seed}");
        let simulation = Simulation::new(seed, network(), 3, 16 << 20).unwrap();
        let mut world = World::new(&simulation, seed, None);
        if seed % 3 == 1 {
            simulation.set_network(lossy());
        }
        world.join();
        world.join();
        for _ in 0..40 {
            world.act();
        }
        world.settle();
        world.check();
        for server in &world.servers {
            moves += server.member.moves();
            merges += server.member.tree().merges();
            inner += server.member.tree().inner_merges();
        }
    }
    assert!(moves > 0, "no member gave keys away by itself");
    assert!(merges > 0, "no leaf was merged");
    // Few clusters have any; `shrinking.rs` has many.
    assert!(clusters() < 1_000 || inner > 0, "no inner node was merged");
    println!("{moves} moves because of the load, {merges} merges, {inner} of inner nodes");
}

/// Many ask for the same keys at the same time, of whichever member has them: what they are told
/// has an order that explains it, whatever happens to members and keys meanwhile.
///
/// With write-through, members die, are stopped for longer than their leases and go on, and answers
/// are lost; without it, keys go to and fro, and what only caches have goes along.
#[test]
fn what_is_asked_for_of_partitions_is_linearizable() {
    let clusters = if cfg!(debug_assertions) { 300 } else { 6_000 };
    let (mut asked, mut contended) = (0, 0);
    for seed in first_seed()..first_seed() + clusters {
        println!("TIMBERLINE_SEED={seed}");
        let simulation = Simulation::new(seed, network(), 3, 16 << 20).unwrap();
        let history = Rc::new(History::default());
        let mut world = World::new(&simulation, seed, Some(Rc::clone(&history)));
        if seed % 6 == 4 {
            simulation.set_network(lossy());
        }
        world.join();
        world.join();
        for _ in 0..12 {
            world.act();
        }
        world.settle();
        world.read_all();
        let (events, is_contended) = history.judge(seed);
        asked += events;
        contended += u64::from(is_contended);
    }
    println!(
        "{asked} operations; in {contended} of {clusters} clusters some on one key overlapped"
    );
    assert!(contended > clusters / 2, "{contended}");
}

/// A memory server dies: an operation that needs it ends in bounded time, with an error that names
/// it; others are carried out, and nothing stale is read. Members come and go meanwhile.
#[test]
fn a_memory_server_dies_and_no_operation_hangs() {
    let (mut carried_out, mut failed, mut longest_ns) = (0, 0, 0);
    for seed in first_seed()..first_seed() + clusters() {
        println!("TIMBERLINE_SEED={seed}");
        let simulation = Simulation::new(seed, network(), 3, 16 << 20).unwrap();
        let mut world = World::new(&simulation, seed, None);
        world.join();
        world.join();
        for _ in 0..10 {
            world.act();
        }
        // Server 0 has the leases, too.
        let server = (seed % 3) as ServerId;
        simulation.kill(server);
        world.known.dead.set(Some(server));
        for _ in 0..10 {
            world.act();
        }
        world.resume();
        world.known.is_over.set(true);
        let over_ns = simulation.now_ns() + LONGEST_NS;
        while let Some(index) = world.busy() {
            let is_late = simulation.now_ns() > over_ns;
            assert!(!is_late, "seed {seed}: an operation on {index} hangs");
            world.pass(1_000_000);
        }
        carried_out += world.known.carried_out.get();
        failed += world.known.failed.get();
        longest_ns = longest_ns.max(world.known.longest_ns.get());
    }
    assert!(carried_out > 0 && failed > 0, "{carried_out}, {failed}");
    println!("{carried_out} operations were carried out beside the dead, {failed} failed");
    println!("the longest took {longest_ns} ns");
}
