//! The tree over TCP connections, and what becomes of operations when these fail.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use timberline_io::wait_for;
use timberline_remote::fabric::tcp::{Tcp, TcpServer};
use timberline_remote::fabric::{Connection, Fabric, Key, Operation, TransportOptions};
use timberline_remote::pool::{CHUNK, MemoryServer};
use timberline_remote::{Address, Error, Layout, Member, Options, RemoteTree, load};

const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A memory server on a thread of its own.
fn server(bytes: usize, key: Option<&Key>) -> SocketAddr {
    let memory = MemoryServer::new(bytes).unwrap();
    let server = TcpServer::bind(LOCAL, memory, key.cloned()).unwrap();
    let address = server.address().unwrap();
    thread::spawn(move || server.serve());
    address
}

fn key(text: &str) -> Key {
    Key::new(text.as_bytes()).unwrap()
}

fn connect(servers: &[SocketAddr], key: Option<Key>) -> Result<Tcp, Error> {
    let deadline = Duration::from_secs(20);
    Tcp::connect(servers, &TransportOptions { key, deadline })
}

#[test]
fn a_tree_over_tcp_has_what_was_put_there() {
    let secret = key("a shared secret of some length");
    let servers = [0, 1, 2].map(|_| server(16 << 20, Some(&secret)));
    let fabric: Arc<dyn Fabric> = Arc::new(connect(&servers, Some(secret)).unwrap());
    let records = (0..20_000).map(|key| (3 * key, key));
    wait_for(load(fabric.clone(), Layout::default(), records)).unwrap();
    let options = Options {
        cache_bytes: 256 << 10,
        ..Options::default()
    };
    let tree = wait_for(RemoteTree::open(fabric, options)).unwrap();
    thread::scope(|scope| {
        for lane in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                wait_for(async {
                    for number in (lane..20_000).step_by(4) {
                        assert_eq!(tree.get(3 * number).await, Ok(Some(number)));
                        assert_eq!(tree.insert(3 * number + 1, lane).await, Ok(None));
                    }
                });
            });
        }
    });
    let counted = wait_for(async {
        let mut scan = tree.scan(0..=u64::MAX).unwrap();
        let mut count = 0;
        while let Some((key, value)) = scan.next().await.unwrap() {
            let number = key / 3;
            assert_eq!(value, if key % 3 == 0 { number } else { number % 4 });
            count += 1;
        }
        count
    });
    assert_eq!(counted, 40_000);
}

#[test]
fn who_has_another_key_is_refused() {
    let secret = key("a shared secret of some length");
    let other = key("another secret of some length.");
    let protected = server(CHUNK, Some(&secret));
    let open = server(CHUNK, None);
    for (address, key) in [
        (protected, None),
        (protected, Some(other.clone())),
        // A server without the key could be anybody.
        (open, Some(other)),
    ] {
        let Err(Error::Unreachable(0, reason)) = connect(&[address], key) else {
            panic!("{address} took it");
        };
        assert!(reason.contains("the keys of the two sides differ"));
    }
    assert!(connect(&[protected], Some(secret)).is_ok());
    assert!(connect(&[open], None).is_ok());
    let short = Key::new(b"short").unwrap_err().to_string();
    assert_eq!(short, "a key needs at least 16 bytes");
}

#[test]
fn more_servers_than_addresses_can_name_are_refused() {
    let nobody = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1)); 65_536];
    let refused = connect(&nobody, None).err();
    assert_eq!(refused, Some(Error::TooManyServers(65_536)));
}

#[test]
fn what_is_no_memory_server_is_said() {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let reason = connect(&[address], None).err().unwrap().to_string();
    assert!(reason.contains(&address.to_string()), "{reason}");
    assert!(reason.contains("another protocol"), "{reason}");

    // A request that nobody sends ends its connection, and no other.
    let server = server(CHUNK, None);
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(&[0; 4_096]).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(connect(&[server], None).is_ok());
}

#[test]
fn the_servers_own_errors_arrive() {
    let fabric = connect(&[server(2 * CHUNK, None)], None).unwrap();
    let connection = Connection::new(Arc::new(fabric));
    let at = Address::new(0, 2 * CHUNK as u64);
    wait_for(async {
        assert_eq!(connection.read(at, 1).await, Err(Error::OutOfRange(at)));
        let most = CHUNK / 8;
        let all = connection.read(Address::new(0, 0), most).await;
        assert_eq!(all, Ok(vec![0; most]));
        let more = connection.read(Address::new(0, 0), most + 1).await;
        assert!(matches!(more, Err(Error::OutOfRange(_))));
        let chunk = Address::new(0, CHUNK as u64);
        let nodes = connection.allocate(0).await.unwrap();
        assert_eq!((nodes[0], nodes.len()), (chunk, CHUNK / 1024));
        assert_eq!(connection.allocate(0).await, Err(Error::PoolFull(0)));
        let nowhere = Err(Error::OutOfRange(at));
        assert_eq!(connection.give_back(at).await, nowhere);
        assert_eq!(connection.give_back(nodes[5]).await, Ok(()));
        assert_eq!(connection.allocate(0).await, Ok(vec![nodes[5]]));
        let load = connection.load(0).await.unwrap();
        assert_eq!(load.allocated_bytes, 2 * CHUNK as u64);
        assert_eq!(
            connection.read(Address::new(1, 0), 1).await,
            Err(Error::NoServer(1))
        );
        assert_eq!(connection.fetch_add(chunk, 5).await, Ok(0));
        assert_eq!(connection.compare_exchange(chunk, 5, 6).await, Ok(5));
        assert_eq!(connection.read(chunk, 1).await, Ok(vec![6]));
    });
}

/// A way to a server that can be cut, or held up.
struct Proxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

struct ProxyState {
    target: Mutex<SocketAddr>,
    held_up: Mutex<bool>,
    changed: Condvar,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(ProxyState {
            target: Mutex::new(target),
            held_up: Mutex::new(false),
            changed: Condvar::new(),
            streams: Mutex::default(),
        });
        let proxy = Proxy {
            address,
            state: Arc::clone(&state),
        };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = *state.target.lock().unwrap();
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                let handles = [&client, &server].map(|it| it.try_clone().unwrap());
                state.streams.lock().unwrap().extend(handles);
                let back = [&server, &client].map(|it| it.try_clone().unwrap());
                let (there, again) = (Arc::clone(&state), Arc::clone(&state));
                thread::spawn(move || there.carry([client, server]));
                thread::spawn(move || again.carry(back));
            }
        });
        proxy
    }

    fn hold_up(&self, held_up: bool) {
        *self.state.held_up.lock().unwrap() = held_up;
        self.state.changed.notify_all();
    }

    fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn lead_to(&self, target: SocketAddr) {
        *self.state.target.lock().unwrap() = target;
    }
}

impl ProxyState {
    fn carry(&self, [mut from, mut to]: [TcpStream; 2]) {
        let mut bytes = [0; 4_096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let held_up = self.held_up.lock().unwrap();
            drop(self.changed.wait_while(held_up, |it| *it).unwrap());
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn read(fabric: &Tcp) -> Result<(), Error> {
    let at = Address::new(0, 0);
    wait_for(fabric.start(Operation::Read(at, 1))).map(|_| ())
}

/// Waits until reads work again, or fail for good.
fn settled(fabric: &Tcp) -> Result<(), Error> {
    loop {
        match read(fabric) {
            Err(Error::Lost(_)) => thread::sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

#[test]
fn a_server_that_answers_no_more_is_named_in_bounded_time() {
    let proxy = Proxy::to(server(CHUNK, None));
    let options = TransportOptions {
        deadline: Duration::from_millis(200),
        ..TransportOptions::default()
    };
    let fabric = Tcp::connect(&[proxy.address], &options).unwrap();
    read(&fabric).unwrap();
    proxy.hold_up(true);
    let begun = Instant::now();
    assert_eq!(read(&fabric), Err(Error::TimedOut(0)));
    assert!(begun.elapsed() >= options.deadline);
    // The answers that come too late are for nobody.
    proxy.hold_up(false);
    while let Err(error) = read(&fabric) {
        // The connection may have been given up, on a machine that is busy.
        let is_named = error.to_string().contains("memory server 0");
        assert!(is_named, "{error}");
    }
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let target = server(CHUNK, None);
    let proxy = Proxy::to(target);
    let fabric = connect(&[proxy.address], None).unwrap();
    let write = Operation::Write(Address::new(0, 8), vec![7]);
    wait_for(fabric.start(write)).unwrap();

    proxy.hold_up(true);
    let waiting = fabric.start(Operation::Read(Address::new(0, 8), 1));
    proxy.cut();
    assert_eq!(wait_for(waiting), Err(Error::Lost(0)));
    proxy.hold_up(false);
    assert_eq!(settled(&fabric), Ok(()));

    // Another run of the server has other memory.
    proxy.lead_to(server(CHUNK, None));
    proxy.cut();
    let Err(Error::Unreachable(0, reason)) = settled(&fabric) else {
        panic!("it was taken for the same");
    };
    assert!(reason.contains("lost its memory"), "{reason}");
    proxy.lead_to(target);
    while read(&fabric).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    let value = wait_for(fabric.start(Operation::Read(Address::new(0, 8), 1)));
    assert_eq!(value, Ok(timberline_remote::fabric::Reply::Words(vec![7])));
}

/// What a fenced compute server has sent and what has not arrived yet is not carried out.
#[test]
fn who_is_fenced_writes_nothing_more() {
    let target = server(CHUNK, None);
    let proxy = Proxy::to(target);
    let late = connect(&[proxy.address], None).unwrap();
    let at = Address::new(0, 8);
    wait_for(late.start(Operation::Write(at, vec![1]))).unwrap();
    proxy.hold_up(true);
    let waiting = late.start(Operation::Write(at, vec![2]));

    let other = Connection::new(Arc::new(connect(&[target], None).unwrap()));
    wait_for(other.fence(late.compute())).unwrap();
    proxy.hold_up(false);
    assert_eq!(wait_for(waiting), Err(Error::Fenced));
    assert_eq!(wait_for(other.read(at, 1)), Ok(vec![1]));
    // Nor does a new connection help.
    proxy.cut();
    assert_eq!(settled(&late), Err(Error::Fenced));
    assert_eq!(wait_for(other.is_fenced(0, late.compute())), Ok(true));
    assert_eq!(wait_for(other.is_fenced(0, other.compute())), Ok(false));
}

/// Two members of a tree over TCP: one stops renewing its lease, the other gets its keys.
#[test]
fn a_member_that_stops_is_replaced() {
    let servers = [0, 1].map(|_| server(16 << 20, None));
    let client = || Arc::new(connect(&servers, None).unwrap());
    let records = (0..5_000).map(|key| (key, key));
    wait_for(load(client(), Layout::default(), records)).unwrap();
    let lease = Duration::from_millis(200);
    let options = || Options {
        cache_bytes: 256 << 10,
        write_through: true,
        ..Options::default()
    };
    let join = || wait_for(Member::join(client(), options(), lease)).unwrap();
    let (stopped, other) = (join(), join());
    // On a busy machine a lease may end before it is used.
    let insert = |member: &Member, value| {
        loop {
            wait_for(member.renew()).unwrap();
            match wait_for(member.tree().insert(7, value)) {
                Err(Error::LeaseExpired) => {}
                result => return result,
            }
        }
    };
    wait_for(stopped.claim(&(0..=u64::MAX))).unwrap();
    assert_eq!(insert(&stopped, 70).map(|_| ()), Ok(()));
    assert_eq!(insert(&other, 1), Err(Error::NotOwned(7)));
    while wait_for(other.tree().get(7)) != Ok(Some(70)) {
        thread::sleep(lease / 8);
        wait_for(other.renew()).unwrap();
        wait_for(other.watch()).unwrap();
        wait_for(other.tend()).unwrap();
    }
    let refused = wait_for(stopped.tree().insert(7, 71));
    assert!(matches!(refused, Err(Error::Fenced | Error::LeaseExpired)));
    assert_eq!(wait_for(stopped.renew()), Err(Error::Fenced));
    assert!(insert(&other, 72).is_ok());
    assert_eq!(insert(&other, 73), Ok(Some(72)));
}
