//! Memory servers and compute servers on each fabric.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::fabric::{
    Fabric, FabricKind, InProcess, Key, Network, Simulation, TransportOptions,
};
use timberline_remote::pool::{CHUNK, MemoryServer};
use timberline_remote::{Error, Result};

pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Fabrics over networks that this build has.
pub fn networks() -> Vec<FabricKind> {
    let names: &[&str] = match cfg!(feature = "libfabric") {
        true => &["tcp", "libfabric:tcp"],
        false => &["tcp"],
    };
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Two memory servers, and what drives tasks over them.
pub trait Bed {
    /// A new compute server.
    fn client(&self) -> Arc<dyn Fabric>;

    /// Drives a task to its end.
    fn run(&self, task: Task<'_>);
}

struct Within(InProcess);

impl Bed for Within {
    fn client(&self) -> Arc<dyn Fabric> {
        Arc::new(self.0.client())
    }

    fn run(&self, task: Task<'_>) {
        wait_for(task);
    }
}

impl Bed for Simulation {
    fn client(&self) -> Arc<dyn Fabric> {
        Simulation::client(self)
    }

    fn run(&self, task: Task<'_>) {
        self.block_on(task).unwrap();
    }
}

struct Beyond {
    kind: FabricKind,
    servers: Vec<SocketAddr>,
}

impl Bed for Beyond {
    fn client(&self) -> Arc<dyn Fabric> {
        connect(&self.kind, &self.servers, None).unwrap()
    }

    fn run(&self, task: Task<'_>) {
        wait_for(task);
    }
}

/// Does something over each fabric, with two memory servers of so many chunks.
pub fn each(chunks: usize, test: impl Fn(&dyn Bed)) {
    let bytes = chunks * CHUNK;
    test(&Within(InProcess::new(2, bytes).unwrap()));
    let network = Network {
        jitter: 2.0,
        ..Network::default()
    };
    test(&Simulation::new(7, network, 2, bytes).unwrap());
    for kind in networks() {
        println!("over {kind}");
        let servers = [0, 1].map(|_| server(&kind, bytes, None)).to_vec();
        test(&Beyond { kind, servers });
    }
}

/// A memory server on threads of this process.
pub fn server(kind: &FabricKind, bytes: usize, key: Option<&Key>) -> SocketAddr {
    let memory = MemoryServer::new(bytes).unwrap();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = kind.bind(local, memory, key.cloned()).unwrap();
    let address = server.address().unwrap();
    thread::spawn(move || server.serve());
    address
}

/// A compute server that waits long enough on any machine.
pub fn connect(
    kind: &FabricKind,
    servers: &[SocketAddr],
    key: Option<Key>,
) -> Result<Arc<dyn Fabric>> {
    let deadline = Duration::from_secs(20);
    kind.connect(servers, &TransportOptions { key, deadline })
}

/// Why a memory server refuses a compute server.
pub fn refusal(result: Result<Arc<dyn Fabric>>) -> String {
    match result.err() {
        Some(Error::Unreachable(0, reason)) => reason,
        other => panic!("{other:?}"),
    }
}

const KIND: &str = "TIMBERLINE_TEST_FABRIC";
/// Chunks of a process' memory.
pub const CHUNKS: usize = 64;

/// Not a test: what a process does that is a memory server.
#[test]
fn process() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    let memory = MemoryServer::new(CHUNKS * CHUNK).unwrap();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = kind.parse::<FabricKind>().unwrap();
    let server = server.bind(local, memory, None).unwrap();
    println!("ready at {}", server.address().unwrap());
    server.serve().unwrap();
}

/// A memory server that is a process.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    pub fn start(kind: &FabricKind) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "beds::process", "--nocapture"])
            .env(KIND, kind.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(std::io::Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("ready at ")?.1.to_string()));
        Process {
            child,
            address: address.expect("it says where").parse().unwrap(),
        }
    }

    /// Stops it. None of its threads does anything when this returns.
    pub fn stop(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_stopped = |task: &std::path::Path| {
            // The state comes after the name, which is in parentheses. Who has ended has none.
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            let state = stat
                .rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('T'));
            state.unwrap_or(true)
        };
        while let Ok(tasks) = std::fs::read_dir(&tasks) {
            if tasks.flatten().all(|task| is_stopped(&task.path())) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
