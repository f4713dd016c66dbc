//! Compute servers as processes, which are killed and stopped under load.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use timberline_io::wait_for;
use timberline_remote::fabric::TransportOptions;
use timberline_remote::fabric::tcp::{Tcp, TcpServer};
use timberline_remote::pool::MemoryServer;
use timberline_remote::{Error, Layout, Member, Options, load};

/// Has the addresses of the memory servers, in a process that is a compute server.
const SERVERS: &str = "TIMBERLINE_TEST_SERVERS";
const HALF: u64 = 1 << 63;
const LEASE: Duration = Duration::from_secs(1);
/// For what comes at last.
const PATIENCE: Duration = Duration::from_secs(120);

fn join(servers: &[SocketAddr]) -> Member {
    let deadline = Duration::from_secs(20);
    let options = TransportOptions {
        deadline,
        ..TransportOptions::default()
    };
    let fabric = Arc::new(Tcp::connect(servers, &options).unwrap());
    let options = Options {
        cache_bytes: 200 << 10,
        write_through: true,
        ..Options::default()
    };
    wait_for(Member::join(fabric, options, LEASE)).unwrap()
}

/// Not a test: what the other process does. It changes records of its half, and says what is
/// acknowledged, until it is told that it is dead.
#[test]
fn child() {
    let Ok(servers) = std::env::var(SERVERS) else {
        return;
    };
    let servers: Vec<SocketAddr> = servers.split(',').map(|it| it.parse().unwrap()).collect();
    let member = join(&servers);
    wait_for(member.claim(&(0..=HALF - 1))).unwrap();
    // The test harness has begun a line.
    println!();
    for number in 0_u64.. {
        // Old records, in leaves that are split meanwhile, and new ones.
        let key = (number % 2_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        let result = match number % 8 {
            0 => {
                wait_for(member.renew()).and_then(|()| wait_for(member.tree().insert(key, number)))
            }
            _ => wait_for(member.tree().insert(key, number)),
        };
        match result {
            Ok(_) => println!("done {key} {number}"),
            // On a busy machine a lease may end before it is used.
            Err(Error::LeaseExpired) => match wait_for(member.renew()) {
                Err(Error::Fenced) => break,
                renewed => renewed.unwrap(),
            },
            Err(Error::Fenced | Error::NotOwned(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    println!("refused");
}

/// The process, and what it has said.
struct Process {
    child: Child,
    acknowledged: Arc<Mutex<BTreeMap<u64, u64>>>,
    /// Ends with the process' output. Says whether it was refused at last.
    reads: Option<JoinHandle<bool>>,
}

impl Process {
    fn start(servers: &[SocketAddr]) -> Process {
        let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(SERVERS, servers.join(","))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
        let all = Arc::clone(&acknowledged);
        let reads = thread::spawn(move || {
            let mut is_refused = false;
            for line in lines.map_while(Result::ok) {
                is_refused |= line == "refused";
                if let Some((key, number)) =
                    line.strip_prefix("done ").and_then(|it| it.split_once(' '))
                    && let (Ok(key), Ok(number)) = (key.parse(), number.parse())
                {
                    all.lock().unwrap().insert(key, number);
                }
            }
            is_refused
        });
        Process {
            child,
            acknowledged,
            reads: Some(reads),
        }
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Waits until it has ended. Says whether it was refused at last.
    fn end(&mut self) -> bool {
        let is_refused = self.reads.take().expect("it ends once").join().unwrap();
        self.child.wait().unwrap();
        is_refused
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does something with a member whose lease may end before it is used, on a busy machine.
fn leased<T>(member: &Member, work: impl Fn() -> Result<T, Error>) -> T {
    loop {
        wait_for(member.renew()).unwrap();
        match work() {
            Err(Error::LeaseExpired) => {}
            result => return result.unwrap(),
        }
    }
}

/// A compute server that is killed, or stopped and goes on, under load: the other one has its keys
/// with all that was acknowledged, and what it changes then stays.
#[test]
fn a_compute_server_may_be_killed_and_stopped() {
    for signal in ["-KILL", "-STOP"] {
        let servers = [0, 1].map(|_| {
            let memory = MemoryServer::new(16 << 20).unwrap();
            let server = TcpServer::bind((Ipv4Addr::LOCALHOST, 0), memory, None).unwrap();
            let address = server.address().unwrap();
            thread::spawn(move || server.serve());
            address
        });
        let fabric = Tcp::connect(&servers, &TransportOptions::default()).unwrap();
        let layout = Layout {
            boundaries: vec![HALF],
            ..Layout::default()
        };
        wait_for(load(Arc::new(fabric), layout, [])).unwrap();
        let other = join(&servers);
        let mut process = Process::start(&servers);
        let count = || process.acknowledged.lock().unwrap().len();
        let begin = Instant::now();
        while count() < 1_000 {
            wait_for(other.renew()).unwrap();
            assert!(begin.elapsed() < PATIENCE, "it does nothing");
            thread::sleep(Duration::from_millis(1));
        }
        process.signal(signal);
        // What it has said is read before something else is in the pool.
        let is_killed = signal == "-KILL";
        if is_killed {
            assert!(!process.end());
        }
        while other.owner(0) != Some(other.compute()) {
            assert!(begin.elapsed() < PATIENCE, "nobody has its keys");
            wait_for(other.renew()).unwrap();
            wait_for(other.watch()).unwrap();
            wait_for(other.tend()).unwrap();
            thread::sleep(LEASE / 8);
        }
        // All that a stopped one has said is read by now; if not, it is compared below.
        let acknowledged = process.acknowledged.lock().unwrap().clone();
        assert!(acknowledged.len() >= 1_000);
        for (&key, &number) in &acknowledged {
            let found = leased(&other, || wait_for(other.tree().get(key)));
            // The last one may have been done without having been acknowledged.
            assert!(
                found >= Some(number),
                "{signal}: {key} has {found:?}, not {number}"
            );
            leased(&other, || wait_for(other.tree().insert(key, u64::MAX)));
        }
        if !is_killed {
            process.signal("-CONT");
            assert!(process.end(), "it goes on although others have its keys");
        }
        for &key in acknowledged.keys() {
            let found = leased(&other, || wait_for(other.tree().get(key)));
            assert_eq!(found, Some(u64::MAX), "{signal}: {key}");
        }
    }
}
