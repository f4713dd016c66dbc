//! Nodes of a cluster in this process, and a client that finds them.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use timberline_remote::fabric::tcp::TcpServer;
use timberline_remote::pool::MemoryServer;
use timberline_server::{Balance, ClusterOptions};

use crate::client::{Client, Folder, Running};

/// Memory servers on threads of their own.
pub fn pool(servers: usize) -> Vec<SocketAddr> {
    pool_of(servers, 32 << 20)
}

/// Memory servers of so many bytes each.
pub fn pool_of(servers: usize, bytes: usize) -> Vec<SocketAddr> {
    let start = |_| {
        let memory = MemoryServer::new(bytes).unwrap();
        let server = TcpServer::bind((Ipv4Addr::LOCALHOST, 0), memory, None).unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.serve());
        address
    };
    (0..servers).map(start).collect()
}

/// Slots stay where they are, and nobody is taken for dead on a machine that is busy.
pub fn cluster(servers: &[SocketAddr]) -> ClusterOptions {
    let mut options = ClusterOptions::new(servers.to_vec());
    options.lease = Duration::from_secs(120);
    options.deadline = Duration::from_secs(30);
    options.balance = Balance::Off;
    options.cache_bytes = 1 << 20;
    options
}

pub fn node(folder: &Folder, options: ClusterOptions) -> Running {
    Running::with(folder, |it| it.cluster = Some(options))
}

/// A node over these memory servers in each folder; the first one has all slots.
pub fn nodes<const N: usize>(folders: &[Folder; N], servers: &[SocketAddr]) -> [Running; N] {
    folders.each_ref().map(|it| node(it, cluster(servers)))
}

/// What a cluster calls a node.
pub fn id(node: &Running) -> String {
    text(&node.client().says("CLUSTER MYID")).to_string()
}

/// Gives slots of a node to the one with this id.
pub fn move_slots(from: &Running, slots: RangeInclusive<u16>, to: &str) {
    let (first, last) = slots.into_inner();
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {to}");
    assert_eq!(from.client().says(&line), "+OK\r\n");
}

/// Moves all slots, a range at a time, from the first node to the second and back, three times.
/// Meanwhile each of `lanes` threads runs `work` with its number and a client of its own, until the
/// flag is set. Returns what they return.
pub fn while_slots_move<T: Send>(
    nodes: &[Running; 2],
    ranges: &[RangeInclusive<u16>],
    pause: Duration,
    lanes: usize,
    work: impl Fn(usize, &mut Routed, &AtomicBool) -> T + Sync,
) -> Vec<T> {
    let ids = nodes.each_ref().map(id);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let lane = |lane: usize| {
            let (work, is_over) = (&work, &is_over);
            scope.spawn(move || work(lane, &mut Routed::new(&nodes[lane % 2]), is_over))
        };
        let lanes: Vec<_> = (0..lanes).map(lane).collect();
        for turn in 0..6 {
            let (owner, to) = (turn % 2, 1 - turn % 2);
            for range in ranges {
                move_slots(&nodes[owner], range.clone(), &ids[to]);
                thread::sleep(pause);
            }
        }
        is_over.store(true, Relaxed);
        lanes.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// A client that goes where it is sent.
pub struct Routed {
    pub nodes: HashMap<SocketAddr, Client<TcpStream>>,
    pub at: SocketAddr,
    /// How often it was sent to another node.
    pub moved: usize,
}

impl Routed {
    pub fn new(first: &Running) -> Routed {
        Routed {
            nodes: HashMap::new(),
            at: first.address,
            moved: 0,
        }
    }

    pub fn says(&mut self, line: &str) -> String {
        for _ in 0..5 {
            let client = self.nodes.entry(self.at).or_insert_with_key(|at| {
                let stream = TcpStream::connect(at).unwrap();
                let patience = Some(Duration::from_secs(60));
                stream.set_read_timeout(patience).unwrap();
                Client::new(stream)
            });
            let reply = client.says(line);
            let Some(to) = reply.strip_prefix("-MOVED ") else {
                return reply;
            };
            self.at = to.split(' ').nth(1).unwrap().trim_end().parse().unwrap();
            self.moved += 1;
        }
        panic!("{line}: sent to and fro");
    }
}

impl Routed {
    /// Executes two commands together, at the node that the last command ended at.
    pub fn execute(&mut self, lines: [String; 2]) {
        let client = self.nodes.get_mut(&self.at).unwrap();
        client.ask("MULTI");
        for line in lines {
            client.ask(&line);
        }
        client.ask("EXEC");
    }
}

/// What stands in a string's reply.
pub fn text(reply: &str) -> &str {
    let (_, rest) = reply.split_once("\r\n").unwrap();
    rest.trim_end_matches("\r\n")
}

/// How many slots a line of `CLUSTER NODES` names.
pub fn slots_of(line: &str) -> usize {
    let ranges = line.split(' ').skip(8);
    let count = |range: &str| match range.split_once('-') {
        Some((first, last)) => 1 + last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap(),
        None => 1,
    };
    ranges.map(count).sum()
}
