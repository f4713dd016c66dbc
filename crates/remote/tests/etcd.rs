//! Members whose leases and partitions are in etcd, a process of Debian's `etcd-server`.
//!
//! It is the program that `TIMBERLINE_ETCD` names, or `etcd`; without it, these tests say so and do
//! nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use timberline_io::wait_for;
use timberline_remote::fabric::InProcess;
use timberline_remote::{Error, Etcd, Layout, Member, Options, Result, load};

const HALF: u64 = 1 << 63;
/// A lease that no test waits for.
const LONG: Duration = Duration::from_secs(300);
/// As short as etcd's can be.
const SHORT: Duration = Duration::from_secs(1);
/// For what comes at last.
const PATIENCE: Duration = Duration::from_secs(120);

/// An etcd of its own.
struct Server {
    child: Child,
    ports: [u16; 2],
    data: PathBuf,
}

impl Server {
    /// A new one. `None`: it is not installed.
    fn start(name: &str) -> Option<Server> {
        let data = std::env::temp_dir().join(format!("timberline-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data);
        // Another process may take a port before etcd does.
        for _ in 0..10 {
            let free = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
            let ports = free.map(|it| it.local_addr().unwrap().port());
            let child = match spawn(ports, &data) {
                Ok(child) => child,
                Err(why) => {
                    println!("skipped: etcd does not start ({why}); it is Debian's etcd-server");
                    return None;
                }
            };
            let mut server = Server {
                child,
                ports,
                data: data.clone(),
            };
            if server.is_ready() {
                return Some(server);
            }
        }
        panic!("etcd does not get ready");
    }

    /// Waits until it answers. It ends if it does not get its ports.
    fn is_ready(&mut self) -> bool {
        let pool = pool();
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if join(&pool, self.options(), LONG).is_ok() {
                return true;
            }
            assert!(begin.elapsed() < PATIENCE, "etcd does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        false
    }

    fn options(&self) -> Options {
        let etcd = Etcd::new(&format!("http://127.0.0.1:{}", self.ports[0])).unwrap();
        Options {
            etcd: Some(etcd),
            ..options()
        }
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Kills it, and starts it again with what is in its folder.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let begin = Instant::now();
        loop {
            self.child = spawn(self.ports, &self.data).unwrap();
            if self.is_ready() {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "its ports are not free again");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

fn spawn(ports: [u16; 2], data: &std::path::Path) -> std::io::Result<Child> {
    let program = std::env::var_os("TIMBERLINE_ETCD").unwrap_or_else(|| "etcd".into());
    let [client, peer] = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let mut etcd = Command::new(program);
    etcd.arg("--data-dir").arg(data);
    etcd.args([
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
    ]);
    etcd.args([
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
    ]);
    etcd.args(["--initial-cluster", &format!("default={peer}")]);
    etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn options() -> Options {
    Options {
        cache_bytes: 200 << 10,
        write_through: true,
        ..Options::default()
    }
}

/// Two memory servers with an empty tree of two partitions.
fn pool() -> InProcess {
    let pool = InProcess::new(2, 8 << 20).unwrap();
    let layout = Layout {
        boundaries: vec![HALF],
        ..Layout::default()
    };
    wait_for(load(Arc::new(pool.client()), layout, [])).unwrap();
    pool
}

fn join(pool: &InProcess, options: Options, lease: Duration) -> Result<Member> {
    wait_for(Member::join(Arc::new(pool.client()), options, lease))
}

/// Does something until it gives a result.
fn at_last<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(begin.elapsed() < PATIENCE, "it never comes");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Fills keys of both halves. Returns them.
fn fill(members: &[&Member]) -> Vec<u64> {
    let keys: Vec<u64> = (0..400)
        .map(|it: u64| it.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    for &key in &keys {
        let owner = members
            .iter()
            .find(|it| it.owner(key) == Some(it.compute()));
        let owner = owner.expect("somebody has the key");
        assert_eq!(wait_for(owner.tree().insert(key, !key)), Ok(None));
    }
    keys
}

#[test]
fn keys_change_hands() {
    let Some(server) = Server::start("hands") else {
        return;
    };
    let pool = pool();
    let [one, other] = [(); 2].map(|()| join(&pool, server.options(), LONG).unwrap());
    wait_for(one.claim(&(0..=HALF - 1))).unwrap();
    wait_for(other.claim(&(0..=u64::MAX))).unwrap();
    assert_eq!(one.tree().partitions(), [0..=HALF - 1]);
    assert_eq!(other.tree().partitions(), [HALF..=u64::MAX]);
    wait_for(one.sync()).unwrap();
    let keys = fill(&[&one, &other]);
    let (first, last) = (HALF / 4, HALF / 2);
    wait_for(one.hand_over(first..=last, other.compute())).unwrap();
    assert_eq!(wait_for(one.tree().get(first)), Err(Error::NotOwned(first)));
    wait_for(other.sync()).unwrap();
    assert_eq!(other.owner(last), Some(other.compute()));
    // Both change the table at a time: none overwrites what the other one did.
    thread::scope(|scope| {
        let to_one = one.compute();
        scope.spawn(|| {
            let to_other = other.compute();
            for key in 0..40 {
                wait_for(one.hand_over(key * 10..=key * 10 + 4, to_other)).unwrap();
            }
        });
        for key in 0..40 {
            let key = HALF + key * 10;
            wait_for(other.hand_over(key..=key + 4, to_one)).unwrap();
        }
    });
    for member in [&one, &other] {
        wait_for(member.tend()).unwrap();
    }
    for key in 0..40 {
        assert_eq!(one.owner(key * 10), Some(other.compute()));
        assert_eq!(one.owner(HALF + key * 10), Some(one.compute()));
        assert_eq!(one.owner(HALF + key * 10 + 5), Some(other.compute()));
    }
    // Who leaves gives its keys to the others.
    wait_for(one.leave()).unwrap();
    assert_eq!(wait_for(one.renew()), Err(Error::Fenced));
    wait_for(other.tend()).unwrap();
    assert_eq!(other.tree().partitions(), [0..=u64::MAX]);
    assert_eq!(wait_for(other.members()).unwrap(), [other.compute()]);
    for key in keys {
        assert_eq!(wait_for(other.tree().get(key)), Ok(Some(!key)));
    }
}

/// A member that renews its lease no more answers nothing, then others have its keys.
#[test]
fn a_lease_that_ends_is_lost() {
    let Some(server) = Server::start("ends") else {
        return;
    };
    let pool = pool();
    let silent = join(&pool, server.options(), SHORT).unwrap();
    let other = join(&pool, server.options(), LONG).unwrap();
    wait_for(silent.claim(&(0..=HALF - 1))).unwrap();
    wait_for(other.claim(&(0..=u64::MAX))).unwrap();
    let key = 7;
    at_last(|| {
        let renewed = wait_for(silent.renew()).is_ok();
        (renewed && wait_for(silent.tree().insert(key, 1)).is_ok()).then_some(())
    });
    at_last(|| {
        wait_for(other.watch()).unwrap();
        wait_for(other.tend()).unwrap();
        (other.owner(key) == Some(other.compute())).then_some(())
    });
    assert_eq!(wait_for(other.tree().insert(key, 2)), Ok(Some(1)));
    // Its cache has the record.
    assert_eq!(wait_for(silent.tree().get(key)), Err(Error::LeaseExpired));
    assert!(wait_for(silent.tree().insert(key, 3)).is_err());
    assert_eq!(wait_for(silent.renew()), Err(Error::Fenced));
    assert_eq!(wait_for(other.tree().get(key)), Ok(Some(2)));
}

/// Stopped: members answer until their leases end. Killed, and started again: it knows everything.
#[test]
fn etcd_may_stop_and_die() {
    let Some(mut server) = Server::start("stops") else {
        return;
    };
    let pool = pool();
    let short = join(&pool, server.options(), SHORT).unwrap();
    let long = join(&pool, server.options(), LONG).unwrap();
    wait_for(short.claim(&(0..=HALF - 1))).unwrap();
    wait_for(long.claim(&(0..=u64::MAX))).unwrap();
    let key = 7;
    at_last(|| {
        let renewed = wait_for(short.renew()).is_ok();
        (renewed && wait_for(short.tree().insert(key, 1)).is_ok()).then_some(())
    });
    server.signal("-STOP");
    let refused = at_last(|| wait_for(short.tree().get(key)).err());
    assert_eq!(refused, Error::LeaseExpired);
    let Err(Error::Etcd(line)) = wait_for(short.renew()) else {
        panic!("a stopped etcd answered");
    };
    assert!(
        line.contains("http://127.0.0.1") && !line.contains('\n'),
        "{line}"
    );
    // The other one's lease goes on.
    assert_eq!(wait_for(long.tree().insert(HALF, 5)), Ok(None));
    server.signal("-CONT");
    server.restart();
    wait_for(long.renew()).unwrap();
    let owner = at_last(|| {
        // Its lease may have ended meanwhile.
        if wait_for(short.renew()).is_ok()
            && let Ok(found) = wait_for(short.tree().get(key))
        {
            return Some((found, short.compute()));
        }
        wait_for(long.watch()).ok()?;
        wait_for(long.tend()).ok()?;
        let found = wait_for(long.tree().get(key)).ok()?;
        Some((found, long.compute()))
    });
    assert_eq!(owner.0, Some(1));
    assert_eq!(wait_for(long.tree().get(HALF)), Ok(Some(5)));
    wait_for(long.sync()).unwrap();
    assert_eq!(long.owner(HALF), Some(long.compute()));
}

/// An etcd that has lost its data knows no member: whoever was one does nothing more, and nobody
/// joins, since others might still have keys.
#[test]
fn an_etcd_without_its_data_serves_no_tree() {
    let Some(mut server) = Server::start("loses") else {
        return;
    };
    let pool = pool();
    let member = join(&pool, server.options(), LONG).unwrap();
    wait_for(member.claim(&(0..=u64::MAX))).unwrap();
    assert_eq!(wait_for(member.tree().insert(1, 1)), Ok(None));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    std::fs::remove_dir_all(&server.data).unwrap();
    server.restart();
    assert_eq!(wait_for(member.renew()), Err(Error::Fenced));
    assert_eq!(wait_for(member.tree().get(1)), Err(Error::LeaseExpired));
    let line = join(&pool, server.options(), LONG)
        .err()
        .unwrap()
        .to_string();
    assert!(
        line.contains("has lost its data") && !line.contains('\n'),
        "{line}"
    );
}

/// All members of a tree have to use the same.
#[test]
fn owners_are_in_one_place() {
    let Some(server) = Server::start("place") else {
        return;
    };
    let [first, second] = [pool(), pool()];
    let _member = join(&first, options(), LONG).unwrap();
    let refused = join(&first, server.options(), LONG).err();
    assert_eq!(refused, Some(Error::OwnersElsewhere { in_etcd: false }));
    let _member = join(&second, server.options(), LONG).unwrap();
    let refused = join(&second, options(), LONG).err();
    assert_eq!(refused, Some(Error::OwnersElsewhere { in_etcd: true }));
    // Two trees in one etcd know nothing of each other.
    let third = pool();
    let member = join(&third, server.options(), LONG).unwrap();
    assert_eq!(wait_for(member.members()).unwrap(), [member.compute()]);
}

/// Needs no etcd: nobody is there, or somebody else.
#[test]
fn what_is_no_etcd_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // Who closes what was not read resets the connection.
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.3.25\"}");
        }
    });
    for (port, said) in [
        (1, "127.0.0.1:1"),
        (port, "it is version 3.3.25; 3.4 or a later"),
    ] {
        let etcd = Etcd::new(&format!("http://127.0.0.1:{port}")).unwrap();
        let options = Options {
            etcd: Some(etcd),
            ..options()
        };
        let line = join(&pool(), options, SHORT).err().unwrap().to_string();
        assert!(line.contains(said) && !line.contains('\n'), "{line}");
    }
}
