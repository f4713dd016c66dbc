//! What becomes of operations over networks when something fails.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use timberline_io::wait_for;
use timberline_remote::fabric::{Fabric, FabricKind, Key, Operation, Reply, TransportOptions};
use timberline_remote::pool::CHUNK;
use timberline_remote::{Address, Error, Layout, Options, RemoteTree, Result, load};

use super::beds::{Process, connect, networks, refusal, server};

/// For what comes at last.
const PATIENCE: Duration = Duration::from_secs(120);

fn impatient(kind: &FabricKind, servers: &[SocketAddr]) -> Arc<dyn Fabric> {
    let options = TransportOptions {
        deadline: Duration::from_millis(500),
        ..TransportOptions::default()
    };
    // A busy machine may need longer than that.
    let begin = Instant::now();
    loop {
        match kind.connect(servers, &options) {
            Ok(fabric) => return fabric,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

fn read(fabric: &Arc<dyn Fabric>, server: u16) -> Result<Reply> {
    wait_for(fabric.start(Operation::Read(Address::new(server, 8), 1)))
}

/// Reads until it works. Every read ends.
fn read_at_last(fabric: &Arc<dyn Fabric>, server: u16) -> Reply {
    let begin = Instant::now();
    loop {
        match read(fabric, server) {
            Ok(reply) => return reply,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_has_another_key_is_refused() {
    for kind in networks() {
        let key = |text: &str| Key::new(text.as_bytes()).unwrap();
        let (secret, other) = (
            key("a shared secret of some length"),
            key("another secret, long"),
        );
        let protected = server(&kind, CHUNK, Some(&secret));
        let open = server(&kind, CHUNK, None);
        for (address, key) in [
            (protected, None),
            (protected, Some(&other)),
            (open, Some(&other)),
        ] {
            let reason = refusal(connect(&kind, &[address], key.cloned()));
            assert!(
                reason.contains("the keys of the two sides differ"),
                "{reason}"
            );
        }
        let fabric = connect(&kind, &[protected], Some(secret)).unwrap();
        assert_eq!(read_at_last(&fabric, 0), Reply::Words(vec![0]));
    }
}

#[test]
fn a_wrong_address_is_said() {
    for kind in networks() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let nobody = listener.local_addr().unwrap();
        drop(listener);
        let reason = refusal(connect(&kind, &[nobody], None));
        assert!(reason.contains(&nobody.to_string()), "{reason}");
        // Each fabric speaks to its own servers only.
        for other in networks().iter().filter(|it| **it != kind) {
            let reason = refusal(connect(&kind, &[server(other, CHUNK, None)], None));
            assert!(reason.contains("another protocol"), "{reason}");
        }
    }
}

#[cfg(feature = "libfabric")]
#[test]
fn providers_have_to_be_there_and_the_same() {
    let of = |name: &str| name.parse::<FabricKind>().unwrap();
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let memory = || timberline_remote::pool::MemoryServer::new(CHUNK).unwrap();
    let absent = of("libfabric:nosuch").bind(local, memory(), None).err();
    let line = absent.unwrap().to_string();
    assert!(line.contains("no provider `nosuch`"), "{line}");
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = of("libfabric:tcp").bind(everywhere, memory(), None).err();
    let line = refused.unwrap().to_string();
    assert!(line.contains("the address of one network card"), "{line}");

    let address = server(&of("libfabric:tcp"), CHUNK, None);
    let reason = refusal(connect(&of("libfabric:sockets"), &[address], None));
    assert!(reason.contains("served by libfabric's `tcp`"), "{reason}");
}

/// A memory server that is killed: operations fail with its name, and the other one goes on.
#[test]
fn a_killed_memory_server_is_named() {
    for kind in networks() {
        let processes = [0, 1].map(|_| Process::start(&kind));
        let servers = processes.each_ref().map(|it| it.address);
        let fabric = impatient(&kind, &servers);
        for server in 0..2 {
            read_at_last(&fabric, server);
        }
        let waiting: Vec<_> = (0..50)
            .map(|number| fabric.start(Operation::Read(Address::new(1, 1024 * number), 128)))
            .collect();
        processes[1].signal("-KILL");
        for operation in waiting {
            let result = wait_for(operation);
            let named = |server| server == 1;
            match result {
                Ok(_) => {}
                Err(Error::Lost(server) | Error::TimedOut(server)) if named(server) => {}
                Err(Error::Unreachable(1, _)) => {}
                other => panic!("{kind}: {other:?}"),
            }
        }
        let begin = Instant::now();
        while read(&fabric, 1).is_ok() {
            assert!(begin.elapsed() < PATIENCE);
        }
        let gone = read(&fabric, 1).unwrap_err();
        assert!(
            gone.to_string().contains("memory server 1"),
            "{kind}: {gone}"
        );
        assert_eq!(read_at_last(&fabric, 0), Reply::Words(vec![0]));
    }
}

/// A memory server that is stopped: every operation ends, and what was written before is there when
/// it goes on. A late write does not overwrite a later one.
#[test]
fn a_stopped_memory_server_is_named_and_goes_on() {
    for kind in networks() {
        let process = Process::start(&kind);
        let fabric = impatient(&kind, &[process.address]);
        read_at_last(&fabric, 0);
        let at = Address::new(0, 8);
        process.stop();
        let late = [
            Operation::Write(at, vec![1; 128]),
            Operation::FetchAdd(Address::new(0, 4_096), 1),
            Operation::CompareExchange {
                at: Address::new(0, 4_104),
                old: 0,
                new: 7,
            },
            Operation::Call(0, timberline_remote::fabric::Call::Load),
        ];
        let waiting: Vec<_> = late.map(|it| fabric.start(it)).into_iter().collect();
        for operation in waiting {
            assert_eq!(wait_for(operation), Err(Error::TimedOut(0)), "{kind}");
        }
        let error = read(&fabric, 0).unwrap_err();
        assert!(
            error.to_string().contains("memory server 0"),
            "{kind}: {error}"
        );
        process.signal("-CONT");
        let begin = Instant::now();
        // Whatever became of the late ones, this is the last.
        while let Err(error) = wait_for(fabric.start(Operation::Write(at, vec![2]))) {
            assert!(begin.elapsed() < PATIENCE, "{kind}: {error}");
        }
        for _ in 0..20 {
            assert_eq!(read_at_last(&fabric, 0), Reply::Words(vec![2]), "{kind}");
        }
    }
}

/// A memory server is stopped for so long that a compute server gives its endpoint up: it gets a
/// new one, and what it had begun is not carried out any more.
#[test]
fn a_long_stop_makes_new_connections() {
    for kind in networks() {
        let process = Process::start(&kind);
        let fabric = impatient(&kind, &[process.address]);
        read_at_last(&fabric, 0);
        process.stop();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(4) {
            let error = read(&fabric, 0).unwrap_err();
            assert!(
                error.to_string().contains("memory server 0"),
                "{kind}: {error}"
            );
            thread::sleep(Duration::from_millis(50));
        }
        process.signal("-CONT");
        assert_eq!(read_at_last(&fabric, 0), Reply::Words(vec![0]), "{kind}");
    }
}

/// A tree over a memory server that is killed under load says so, in bounded time.
#[test]
fn a_tree_over_a_killed_memory_server_fails_and_does_not_hang() {
    for kind in networks() {
        let process = Process::start(&kind);
        let fabric = impatient(&kind, &[process.address]);
        let records = (0..20_000).map(|key| (key, key));
        let loaded = wait_for(load(Arc::clone(&fabric), Layout::default(), records));
        loaded.unwrap();
        let options = Options {
            cache_bytes: 200 << 10,
            ..Options::default()
        };
        let tree = wait_for(RemoteTree::open(fabric, options)).unwrap();
        let failures = thread::scope(|scope| {
            let workers = [0, 1].map(|lane| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut draws = fastrand::Rng::with_seed(lane);
                    loop {
                        if let Err(error) = wait_for(tree.get(draws.u64(0..20_000))) {
                            return error;
                        }
                    }
                })
            });
            thread::sleep(Duration::from_millis(100));
            process.signal("-KILL");
            workers.map(|worker| worker.join().unwrap())
        });
        for error in failures {
            assert!(
                error.to_string().contains("memory server 0"),
                "{kind}: {error}"
            );
        }
    }
}
