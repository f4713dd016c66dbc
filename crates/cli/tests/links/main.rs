//! A cluster of processes, each on a host of its own, whose links are cut under load and joined
//! again: a network namespace each, with a link to a bridge. That takes `ip` and the right to make
//! namespaces; without them, the test says so and does nothing.

mod client;
#[path = "../command/mod.rs"]
mod command;
mod net;
#[path = "../../../remote/tests/patience/mod.rs"]
mod patience;
#[path = "../process/mod.rs"]
mod process;
#[path = "../scratch/mod.rs"]
mod scratch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use client::{Client, CutOff, Reply};
use command::{stderr, stdout, timberline};
use net::{Host, Net, within};
use patience::at_last;
use process::Process;
use scratch::Scratch;

/// Has the name of the bridge's namespace, in the process that plays the test there.
const HUB: &str = "TIMBERLINE_TEST_HUB";
/// Has the address of the node, in a process that is its client on the same host.
const NODE: &str = "TIMBERLINE_TEST_NODE";
const PORT: u16 = 7_000;
const WRITERS: usize = 3;
/// Of each writer.
const KEYS: usize = 40;
/// Hash tags of further keys.
const TAGS: usize = 8;
/// That all clients increment.
const COUNTERS: usize = 30;

/// Runs a test of this program in a namespace.
fn test_within(space: &str, test: &str) -> Command {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", test, "--nocapture"]);
    within(space, &this)
}

#[test]
fn links_are_cut_and_nothing_acknowledged_is_lost() {
    if let Ok(hub) = std::env::var(HUB) {
        return play(&hub);
    }
    let net = match Net::new(4) {
        Ok(net) => net,
        Err(why) => {
            println!("skipped: there are no network namespaces ({why})");
            return;
        }
    };
    let hub = net.hub();
    let mut played = test_within(&hub, "links_are_cut_and_nothing_acknowledged_is_lost");
    let output = played.env(HUB, &hub).output().unwrap();
    println!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success());
}

/// Not a test: a client on the host of a node. It increments counters there, and says what it is
/// told, until the node is gone.
#[test]
fn client_on_the_host() {
    let Ok(node) = std::env::var(NODE) else {
        return;
    };
    let (nodes, cut_off) = ([node], CutOff::default());
    let mut client = Client::new(&nodes, &cut_off);
    // The test harness has begun a line.
    println!();
    let mut gone = 0;
    while gone < 20 {
        for counter in 0..COUNTERS {
            match client.says_here(&format!("INCR counter{counter}")) {
                Reply::Is(now) => println!("done {counter} {now}"),
                Reply::Error(why) if why.starts_with("-MOVED") => {}
                Reply::Error(why) => println!("error {counter} {why}"),
                Reply::None => {
                    gone += 1;
                    println!("unknown {counter}");
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// A node that is started again whenever it has ended, as a service is.
struct Node {
    host: Host,
    servers: String,
    dir: PathBuf,
    key: PathBuf,
    process: Process,
}

impl Node {
    fn start(host: Host, servers: &str, dir: &Path, key: &Path) -> Node {
        let mut node = serve(&host, servers, dir, key);
        Node {
            process: Process::start(&mut node),
            servers: servers.into(),
            dir: dir.into(),
            key: key.into(),
            host,
        }
    }

    /// Starts it again if it has ended. Returns the exit code that it had then.
    fn keep(&mut self) -> Option<i32> {
        let ended = self.process.child.try_wait().unwrap()?;
        let mut node = serve(&self.host, &self.servers, &self.dir, &self.key);
        self.process = Process::start(&mut node);
        Some(ended.code().unwrap())
    }
}

fn serve(host: &Host, servers: &str, dir: &Path, key: &Path) -> Command {
    let mut node = timberline();
    node.args(["serve", "--cluster", "--servers", servers, "--listen"]);
    node.arg(host.address(PORT)).arg("--dir").arg(dir);
    node.arg("--key-file").arg(key);
    node.args(["--threads", "1", "--memory", "64MB", "--no-protected-mode"]);
    node.args(["--lease", "3000"]);
    host.runs(&node)
}

/// What clients know.
#[derive(Default)]
struct Known {
    /// Of each counter: what increments were told.
    counters: Mutex<BTreeMap<usize, BTreeSet<u64>>>,
    /// Increments that may have been done.
    unknown: Mutex<BTreeMap<usize, u64>>,
    /// Errors that clients were told since the last look.
    errors: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
}

impl Known {
    fn increment(&self, counter: usize, reply: Reply) {
        match reply {
            Reply::Is(now) => {
                let now = now.trim_start_matches(':').parse().unwrap();
                let mut counters = self.counters.lock().unwrap();
                let is_new = counters.entry(counter).or_default().insert(now);
                drop(counters);
                // Two that are told the same: one of them was lost.
                assert!(is_new, "counter {counter} was {now} twice");
            }
            Reply::Error(why) => {
                self.note(why);
                *self.unknown.lock().unwrap().entry(counter).or_default() += 1;
            }
            Reply::None => *self.unknown.lock().unwrap().entry(counter).or_default() += 1,
        }
    }

    fn note(&self, why: String) {
        self.errors.lock().unwrap().insert(why);
    }

    fn errors(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.errors.lock().unwrap())
    }
}

/// What a writer knows of a key that is its own: the last number that was acknowledged, and the
/// last one that it has asked for.
#[derive(Clone, Copy, Default)]
struct Own {
    acknowledged: u64,
    asked: u64,
}

/// Sets and reads keys of its own, and increments all counters. Nothing that it reads is older than
/// what was acknowledged. `progress` counts rounds in which all was acknowledged.
fn write(writer: usize, nodes: &[String], cut_off: &CutOff, known: &Known, progress: &Progress) {
    let mut client = Client::new(nodes, cut_off);
    let mut keys = [Own::default(); KEYS];
    let mut inserted = Vec::new();
    let mut next = 0;
    while !known.is_over.load(SeqCst) {
        let mut all = true;
        for (number, key) in keys.iter_mut().enumerate() {
            key.asked += 1;
            match client.says(&format!("SET {writer}:{number} {}", key.asked)) {
                Reply::Is(_) => key.acknowledged = key.asked,
                Reply::Error(why) => {
                    known.note(why);
                    all = false;
                }
                Reply::None => all = false,
            }
            all &= check(&mut client, writer, number, key, known);
        }
        // New ones, in few slots: so leaves are split.
        for _ in 0..TAGS {
            next += 1;
            let key = format!("{{tag{}}}{writer}:{next}", next % TAGS);
            match client.says(&format!("SET {key} {next}")) {
                Reply::Is(_) => inserted.push((key, next)),
                Reply::Error(why) => {
                    known.note(why);
                    all = false;
                }
                Reply::None => all = false,
            }
        }
        for counter in 0..COUNTERS {
            let reply = client.says(&format!("INCR counter{counter}"));
            all &= matches!(reply, Reply::Is(_));
            known.increment(counter, reply);
        }
        if all {
            progress.note(writer);
        }
    }
    for (number, key) in keys.iter_mut().enumerate() {
        at_last(|| check(&mut client, writer, number, key, known).then_some(()));
    }
    for (key, number) in &inserted {
        let found = at_last(|| match client.says(&format!("GET {key}")) {
            Reply::Is(found) => Some(found),
            _ => None,
        });
        assert_eq!(found, number.to_string(), "{key}");
    }
    println!("writer {writer} has {} keys more", inserted.len());
}

/// Reads a key. Says whether that was possible.
fn check(client: &mut Client, writer: usize, number: usize, key: &Own, known: &Known) -> bool {
    match client.says(&format!("GET {writer}:{number}")) {
        Reply::Is(found) => {
            let found = if found == "$-1" {
                0
            } else {
                found.parse().unwrap()
            };
            let may_be = key.acknowledged..=key.asked;
            assert!(
                may_be.contains(&found),
                "{writer}:{number} is {found}, not in {may_be:?}"
            );
            true
        }
        Reply::Error(why) => {
            known.note(why);
            false
        }
        Reply::None => false,
    }
}

/// Rounds of each writer in which all was acknowledged.
#[derive(Default)]
struct Progress(Mutex<[u64; WRITERS]>);

impl Progress {
    fn note(&self, writer: usize) {
        self.0.lock().unwrap()[writer] += 1;
    }

    /// Waits until all is served, by nodes that are started again if they have ended.
    fn wait(&self, nodes: &mut [Node]) {
        let before = *self.0.lock().unwrap();
        at_last(|| {
            for node in &mut *nodes {
                if let Some(code) = node.keep() {
                    println!("the node at {} ended with {code}", node.host.address(PORT));
                }
            }
            let now = *self.0.lock().unwrap();
            now.iter()
                .zip(before)
                .all(|(now, before)| *now > before + 1)
                .then_some(())
        });
    }
}

/// The test, from where all hosts can be reached.
fn play(hub: &str) {
    let scratch = Scratch::new();
    let key = scratch.write("key", b"a key that all of these have\n");
    let hosts: Vec<Host> = (1..=4).map(|number| Host::of(hub, number)).collect();
    let memory = |host: &Host| {
        let mut pool = timberline();
        pool.args(["pool", "--listen", &host.address(PORT), "--memory", "64MB"]);
        pool.arg("--key-file").arg(&key);
        Process::start(&mut host.runs(&pool))
    };
    let _memory = [memory(&hosts[0]), memory(&hosts[1])];
    let servers = format!("{},{}", hosts[0].address(PORT), hosts[1].address(PORT));
    let mut nodes: Vec<Node> = (2..4)
        .map(|at| {
            let dir = scratch.path(&format!("log {at}"));
            Node::start(hosts[at].clone(), &servers, &dir, &key)
        })
        .collect();
    let addresses: Vec<String> = nodes.iter().map(|it| it.host.address(PORT)).collect();
    let (known, cut_off, progress) = (Known::default(), CutOff::default(), Progress::default());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (addresses, cut_off) = (&addresses, &cut_off);
            let (known, progress) = (&known, &progress);
            scope.spawn(move || write(writer, addresses, cut_off, known, progress));
        }
        let over = Over(&known);
        // Until both nodes have slots.
        at_last(|| {
            let mut client = Client::new(&addresses, &cut_off);
            let Reply::Is(lines) = client.says("CLUSTER NODES") else {
                return None;
            };
            let has_slots = |line: &&str| line.split(' ').count() > 8;
            (lines.lines().filter(has_slots).count() == 2).then_some(())
        });
        progress.wait(&mut nodes);
        known.errors();

        // A memory server that has no leases: what it has fails and names it.
        hosts[1].cut();
        let named = at_last(|| {
            let errors = known.errors().into_iter();
            errors.into_iter().find(|it| it.contains("memory server 1"))
        });
        println!("cut off from memory server 1: {named}");
        thread::sleep(Duration::from_secs(6));
        hosts[1].join();
        progress.wait(&mut nodes);
        known.errors();

        // The one with the leases: for so long that they end, and nothing is served.
        hosts[0].cut();
        let named = at_last(|| {
            let errors = known.errors().into_iter();
            errors
                .into_iter()
                .find(|it| it.contains("lease has ended: memory server 0"))
        });
        println!("cut off from memory server 0: {named}");
        thread::sleep(Duration::from_secs(2));
        hosts[0].join();
        progress.wait(&mut nodes);
        known.errors();

        cut_a_node(&mut nodes, &cut_off, &known);
        progress.wait(&mut nodes);
        drop(over);
    });
    let counters = known.counters.lock().unwrap();
    let unknown = known.unknown.lock().unwrap();
    let mut client = Client::new(&addresses, &cut_off);
    for (counter, told) in counters.iter() {
        let found = at_last(|| match client.says(&format!("GET counter{counter}")) {
            Reply::Is(found) => Some(found.parse::<u64>().unwrap()),
            _ => None,
        });
        let told = told.len() as u64;
        let most = told + unknown.get(counter).copied().unwrap_or(0);
        assert!(
            (told..=most).contains(&found),
            "counter {counter}: {found}, {told}..={most}"
        );
    }
}

/// Writers end with this, also if the test fails.
struct Over<'a>(&'a Known);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

/// Cuts off the second node, which has a client on its own host, until the first one has its slots.
fn cut_a_node(nodes: &mut [Node], cut_off: &CutOff, known: &Known) {
    let host = nodes[1].host.clone();
    let address = host.address(PORT);
    let mut inside = host.runs(&{
        let mut this = Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", "client_on_the_host", "--nocapture"]);
        this
    });
    inside
        .env(NODE, &address)
        .env_remove(HUB)
        .stdout(Stdio::piped());
    let mut inside = inside.spawn().unwrap();
    let lines = BufReader::new(inside.stdout.take().unwrap()).lines();
    // All of its counters' increments were acknowledged at least once.
    let (said, is_cut) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    thread::scope(|scope| {
        let reads = scope.spawn(|| {
            for line in lines {
                said.lock()
                    .unwrap()
                    .push((line.unwrap(), is_cut.load(SeqCst)));
            }
        });
        let has = |what: &str, when_cut: bool| {
            let said = said.lock().unwrap();
            said.iter()
                .any(|it| it.0.contains(what) && it.1 == when_cut)
        };
        at_last(|| has("done ", false).then_some(()));
        cut_off.set(Some(&address));
        host.cut();
        is_cut.store(true, SeqCst);
        at_last(|| has("lease has ended: memory server 0", true).then_some(()));
        // The first one serves all, also what was the other one's.
        let first = [nodes[0].host.address(PORT)];
        let mut client = Client::new(&first, cut_off);
        for counter in 0..COUNTERS {
            at_last(|| {
                nodes[0].keep();
                let reply = client.says(&format!("INCR counter{counter}"));
                let is_done = matches!(reply, Reply::Is(_));
                known.increment(counter, reply);
                is_done.then_some(())
            });
        }
        host.join();
        // It finds that it was taken for dead.
        let code = at_last(|| nodes[1].process.child.try_wait().unwrap());
        assert_eq!(code.code(), Some(1));
        cut_off.set(None);
        reads.join().unwrap();
    });
    assert!(inside.wait().unwrap().success());
    let said = said.into_inner().unwrap();
    println!("{} lines of the client on its host", said.len());
    let reasons = ["memory server ", "lease has expired", "taken for dead"];
    for (line, was_cut) in &said {
        let words = line.split_once(' ').and_then(|(what, rest)| {
            let (counter, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            Some((what, counter.parse().ok()?, rest.to_string()))
        });
        match words {
            Some(("done", counter, now)) => known.increment(counter, Reply::Is(now)),
            Some(("error", counter, why)) => {
                let is_said = !was_cut || reasons.iter().any(|it| why.contains(it));
                assert!(is_said, "{why}");
                known.increment(counter, Reply::Error(why));
            }
            Some(("unknown", counter, _)) => known.increment(counter, Reply::None),
            _ => {}
        }
    }
}
