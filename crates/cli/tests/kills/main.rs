//! A server that is killed under load, again and again, in the same folder: what it promised is
//! there each time.
//!
//! In a *cycle*, four clients write until the process gets SIGKILL at a random instant. Then it is
//! started again, one time in three after a kill during its start, and all keys are compared with
//! what the clients know. Segments are small, so cleaning and checkpoints are always under way. A
//! kill leaves the kernel alive: what it was given is not lost. So these are promises about the
//! process; `timberline_store`'s tests on a simulated disk are about power.
//!
//! `TIMBERLINE_KILLS=n` makes it n cycles, `TIMBERLINE_SEED=n` others (`cargo xtask kills`). A seed
//! repeats what clients ask and when they are killed, but not how far they come.

mod client;
#[path = "../command/mod.rs"]
mod command;
mod model;
#[path = "../scratch/mod.rs"]
mod scratch;
#[path = "../serving/mod.rs"]
mod serving;
mod watch;
mod writer;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Client, Reply};
use command::{stdout, timberline};
use fastrand::Rng;
use model::{Op, SHARED, number};
use scratch::Scratch;
use serving::{Serving, command};
use watch::{Figures, watch};
use writer::Writer;

const WRITERS: usize = 4;
/// Cycles of a usual run.
const CYCLES: usize = 8;
/// From so many cycles on, all that can happen has to have happened.
const MANY: usize = 100;

/// What `--durability` is, cycle by cycle; and how long clients write, in microseconds at most.
const LEVELS: [(&str, u64); 4] = [
    ("each", 500_000),
    // Commits are a second apart.
    ("interval", 2_500_000),
    ("each", 500_000),
    ("none", 500_000),
];

/// A number of the environment's.
fn given(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |it| it.parse().expect("it is a whole number"))
}

/// What happened in all cycles.
#[derive(Default, Debug)]
struct Counts {
    cycles: usize,
    /// Commands that were answered, and of these, commands that had to survive.
    answered: usize,
    sure: usize,
    /// The same in cycles that don't wait for the disk.
    sure_of_others: usize,
    /// Commands that were answered and did not survive, in cycles where they need not.
    dropped: usize,
    /// Kills of a server that did not serve yet.
    early: usize,
    cleaned: u64,
    moved: u64,
    checkpoints: u64,
}

/// A folder, and those who know what it has to have.
struct World {
    scratch: Scratch,
    rng: Rng,
    writers: Vec<Writer>,
    /// Commands of each writer that have to be there when the server is started next.
    floors: Vec<usize>,
    /// The counter of all writers.
    shared: i64,
    /// How long the last start took.
    start: Duration,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            scratch: Scratch::new(),
            rng: Rng::with_seed(seed),
            writers: (0..WRITERS).map(|id| Writer::new(id, seed)).collect(),
            floors: vec![0; WRITERS],
            shared: 0,
            start: Duration::from_millis(20),
            counts: Counts::default(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path("store")
    }

    fn start(&mut self, durability: &str) -> Serving {
        let mut args = vec![
            "--durability",
            durability,
            "--segment",
            "256KB",
            "--capacity",
            "32MB",
            "--memory",
            "128MB",
            "--threads",
            "2",
            // What is on the disk is the same with each of them.
            "--index-map",
            ["art", "btree"][self.rng.usize(..2)],
            "--cache",
            ["values", "blocks"][self.rng.usize(..2)],
        ];
        if self.rng.bool() {
            args.extend(["--disk", "threads"]);
        }
        while self.rng.u8(0..3) == 0 {
            let mut child = command(&self.dir(), &args).spawn().unwrap();
            let most = self.start.as_micros() as u64;
            sleep(Duration::from_micros(self.rng.u64(0..=most)));
            child.kill().unwrap();
            child.wait().unwrap();
            self.counts.early += 1;
        }
        let begun = Instant::now();
        let server = Serving::with(&self.dir(), &args);
        self.start = begun.elapsed();
        let is_loss = |line: &&String| line.contains("lost: ");
        assert_eq!(server.said.iter().find(is_loss), None);
        server
    }

    /// Compares what is there with what has to be.
    fn check(&mut self, server: &Serving) {
        let mut client = Client::new(&server.address).expect("the server is there");
        let mut shared = [self.shared; 2];
        for (writer, floor) in self.writers.iter_mut().zip(&self.floors) {
            let (sent, answered) = (writer.sent.clone(), writer.acknowledged.load(SeqCst));
            let fits = writer.settle(&mut client, *floor);
            let fits = fits.unwrap_or_else(|why| panic!("cycle {}: {why}", self.counts.cycles));
            self.counts.answered += answered;
            self.counts.sure += *floor;
            self.counts.dropped += answered.saturating_sub(*fits.end());
            add_increments(&mut shared, &sent, fits);
        }
        let [least, most] = shared;
        let there = match client.ask(&["GET", SHARED]).expect("the server is there") {
            Reply::Bulk(Some(text)) => number(&text),
            _ => 0,
        };
        let cycle = self.counts.cycles;
        assert!(
            (least..=most).contains(&there),
            "cycle {cycle}: the shared counter is {there}, not {least} to {most}"
        );
        self.shared = there;
        let keys: usize = self.writers.iter().map(Writer::keys).sum();
        let keys = keys as i64 + i64::from(there > 0);
        let counted = client.ask(&["DBSIZE"]).expect("the server is there");
        assert_eq!(counted, Reply::Integer(keys), "cycle {cycle}");
    }

    /// Has clients write to a server for a while, which is killed then.
    fn load(&mut self, mut server: Serving, (durability, most): (&str, u64)) {
        let time = Duration::from_micros(self.rng.u64(0..most));
        let address = server.address.clone();
        let counts = self.writers.iter();
        let counts: Vec<_> = counts.map(|it| Arc::clone(&it.acknowledged)).collect();
        let (sure, figures) = std::thread::scope(|scope| {
            for writer in &mut self.writers {
                let address = &address;
                scope.spawn(move || writer.write(address));
            }
            let watching = scope.spawn(|| watch(&address, &counts));
            sleep(time);
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            watching.join().unwrap()
        });
        let answered = self
            .writers
            .iter()
            .map(|it| it.acknowledged.load(SeqCst))
            .collect();
        self.counts.cleaned += figures.cleaned;
        self.counts.moved += figures.moved;
        self.counts.checkpoints += figures.checkpoints;
        self.floors = match durability {
            "each" => answered,
            _ => {
                self.counts.sure_of_others += sure.iter().sum::<usize>();
                sure
            }
        };
        self.counts.cycles += 1;
    }

    /// Stops the server, and has all files looked at.
    fn end(mut self, mut server: Serving) -> Counts {
        server.ask("SHUTDOWN\r\n");
        assert!(server.child.wait().unwrap().success());
        let output = timberline().arg("check").arg(self.dir()).output().unwrap();
        assert!(output.status.success(), "{}", stdout(&output));
        std::mem::take(&mut self.counts)
    }
}

/// Adds the increments of the shared counter that are there for sure, and those that may be.
fn add_increments(shared: &mut [i64; 2], sent: &[Op], fits: RangeInclusive<usize>) {
    for (count, cut) in shared.iter_mut().zip([*fits.start(), *fits.end()]) {
        let of_shared = |op: &&Op| matches!(op, Op::IncrementShared);
        *count += sent[..cut].iter().filter(of_shared).count() as i64;
    }
}

/// What is answered is there after a kill (`each`), or what was on the disk before it (`interval`,
/// `none`); whatever is lost is the end of what each client did.
#[test]
fn a_killed_server_has_what_it_promised() {
    let seed = given("TIMBERLINE_SEED", 20_261_126);
    println!("TIMBERLINE_SEED={seed}");
    let cycles = given("TIMBERLINE_KILLS", CYCLES as u64) as usize;
    let mut world = World::new(seed);
    for cycle in 0..cycles {
        let level = LEVELS[cycle % LEVELS.len()];
        let server = world.start(level.0);
        world.check(&server);
        world.load(server, level);
    }
    let server = world.start("each");
    world.check(&server);
    let counts = world.end(server);
    println!("{counts:#?}");
    assert!(counts.answered > 0 && counts.sure > 0);
    if cycles >= MANY {
        assert!(counts.early > 0 && counts.sure_of_others > 0);
        assert!(counts.cleaned > 0 && counts.moved > 0 && counts.checkpoints > 0);
    }
}

/// With `interval`, all comes to the disk by itself, and then a kill loses nothing.
#[test]
fn after_an_interval_a_kill_loses_nothing() {
    let scratch = Scratch::new();
    let dir = scratch.path("store");
    let mut server = Serving::with(&dir, &["--durability", "interval"]);
    let mut client = Client::new(&server.address).unwrap();
    for nth in 0..100 {
        let set = client.ask(&["SET", &format!("key{nth}"), "value"]).unwrap();
        assert_eq!(set, Reply::Simple("OK".into()));
    }
    loop {
        let Figures {
            appended, durable, ..
        } = Figures::ask(&mut client).expect("it is there");
        if appended == durable {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Serving::new(&dir);
    assert_eq!(server.ask("DBSIZE\r\nQUIT\r\n"), ":100\r\n+OK\r\n");
}
