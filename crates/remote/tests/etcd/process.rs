//! A process of Debian's `etcd-server`, for tests of this crate and of the server.
//!
//! It is the program that `TIMBERLINE_ETCD` names, or `etcd`.

#![allow(dead_code, reason = "each test uses some of it")]

use std::array::from_fn;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::PATIENCE;
use timberline_io::wait_for;
use timberline_remote::fabric::InProcess;
use timberline_remote::{Etcd, Layout, Member, Options, load};

/// A server of an etcd of its own.
pub struct Server {
    child: Child,
    how: Start,
}

/// How a server is started.
struct Start {
    name: String,
    /// For clients, and for other servers.
    ports: [u16; 2],
    data: PathBuf,
    /// All servers of this etcd, as its option says them.
    cluster: String,
}

impl Server {
    /// A new one that is alone. `None`: it is not installed.
    pub fn start(name: &str) -> Option<Server> {
        Server::start_several(name).map(|[server]| server)
    }

    /// New ones that are one etcd. `None`: it is not installed.
    pub fn start_several<const N: usize>(name: &str) -> Option<[Server; N]> {
        // Another process may take a port before etcd does.
        for _ in 0..10 {
            let mut servers = Vec::new();
            for how in Start::several::<N>(name) {
                let _ = std::fs::remove_dir_all(&how.data);
                match how.spawn() {
                    Ok(child) => servers.push(Server { child, how }),
                    Err(why) => {
                        println!(
                            "skipped: etcd does not start ({why}); it is Debian's etcd-server"
                        );
                        return None;
                    }
                }
            }
            if servers.iter_mut().all(Server::is_ready) {
                return servers.try_into().ok();
            }
        }
        panic!("etcd does not get ready");
    }

    /// Waits until it answers. It ends if it does not get its ports.
    fn is_ready(&mut self) -> bool {
        let pool = InProcess::new(1, 4 << 20).unwrap();
        let loaded = load(Arc::new(pool.client()), Layout::default(), []);
        wait_for(loaded).unwrap();
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            // As members use it: when it says its version it does not serve keys yet.
            let options = Options {
                cache_bytes: 200 << 10,
                etcd: Some(self.etcd()),
                ..Options::default()
            };
            let joined = Member::join(Arc::new(pool.client()), options, PATIENCE);
            if wait_for(joined).is_ok() {
                return true;
            }
            assert!(begin.elapsed() < PATIENCE, "etcd does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Where it serves clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.how.ports[0]).into()
    }

    /// The same for members.
    pub fn etcd(&self) -> Etcd {
        Etcd::new(&format!("http://{}", self.address())).unwrap()
    }

    /// Sends it a signal, as `kill` knows it.
    pub fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Kills it, if it has not ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Loses its data. It has been killed.
    pub fn lose(&self) {
        std::fs::remove_dir_all(&self.how.data).unwrap();
    }

    /// Kills it, and starts it again with what is in its folder.
    pub fn restart(&mut self) {
        self.kill();
        let begin = Instant::now();
        loop {
            self.child = self.how.spawn().unwrap();
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
        let _ = std::fs::remove_dir_all(&self.how.data);
    }
}

impl Start {
    fn several<const N: usize>(name: &str) -> [Start; N] {
        // All are bound before one is free again: no port comes twice.
        let free = [(); N].map(|()| [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap()));
        let ports = free.map(|two| two.map(|it| it.local_addr().unwrap().port()));
        let names: [String; N] = from_fn(|index| format!("{name}-{index}"));
        let peers = names.iter().zip(ports);
        let peers = peers.map(|(name, [_, peer])| format!("{name}=http://127.0.0.1:{peer}"));
        let cluster = peers.collect::<Vec<_>>().join(",");
        let id = std::process::id();
        from_fn(|index| Start {
            name: names[index].clone(),
            ports: ports[index],
            data: std::env::temp_dir().join(format!("timberline-{id}-{}", names[index])),
            cluster: cluster.clone(),
        })
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let program = std::env::var_os("TIMBERLINE_ETCD").unwrap_or_else(|| "etcd".into());
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut etcd = Command::new(program);
        etcd.arg("--data-dir").arg(&self.data);
        etcd.args(["--name", &self.name, "--initial-cluster", &self.cluster]);
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
        etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }
}
