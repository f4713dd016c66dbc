//! A process of Debian's `etcd-server`, for tests of this crate and of the server.
//!
//! It is the program that `TIMBERLINE_ETCD` names, or `etcd`.

#![allow(dead_code, reason = "each test uses some of it")]

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

/// An etcd of its own.
pub struct Server {
    child: Child,
    ports: [u16; 2],
    data: PathBuf,
}

impl Server {
    /// A new one. `None`: it is not installed.
    pub fn start(name: &str) -> Option<Server> {
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
        (Ipv4Addr::LOCALHOST, self.ports[0]).into()
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
        std::fs::remove_dir_all(&self.data).unwrap();
    }

    /// Kills it, and starts it again with what is in its folder.
    pub fn restart(&mut self) {
        self.kill();
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
