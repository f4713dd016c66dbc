//! `timberline pool`: a memory server of the B+tree over memory servers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use timberline_remote::fabric::{FabricKind, Key};
use timberline_remote::pool::{FINDERS, MemoryServer};
use timberline_tier::topology::Topology;

use crate::Failure;
use crate::parse::{address, whole};
use crate::say::tell;

#[derive(clap::Args)]
pub struct Args {
    /// Address to listen at; port 0 is a free one
    #[arg(
        long,
        default_value = "127.0.0.1:7700",
        value_parser = address,
        value_name = "ADDRESS:PORT"
    )]
    listen: SocketAddr,
    /// Memory for compute servers, such as 512MB or 8GB
    #[arg(long, default_value = "1GB", value_parser = memory, value_name = "BYTES")]
    memory: u64,
    /// How compute servers reach the memory: by sockets, or by network cards that read and write it
    /// themselves, such as libfabric:verbs
    #[arg(long, default_value_t, value_name = "tcp|libfabric:PROVIDER")]
    fabric: FabricKind,
    /// File with the key that compute servers have to have, of at least 16 bytes. It says who may
    /// connect; what is sent is not encrypted
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Threads at a time that look for leaves where compute servers have that done
    #[arg(
        long,
        default_value_t = FINDERS as u16,
        value_parser = whole::<u16>(1..=1024),
        value_name = "N"
    )]
    offload_threads: u16,
    /// Serve other machines although there is no key: whoever connects may read and write all
    #[arg(long)]
    no_protected_mode: bool,
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = timberline_server::bytes(text).filter(|it| *it >= 1 << 20);
    bytes.ok_or_else(|| "at least 1MB, with a unit: KB, MB, GB or TB".into())
}

/// The key in a file.
pub fn key(path: &Path) -> Result<Key, Failure> {
    Key::read(path)
        .map_err(|error| Failure::Impossible(format!("--key-file {}: {error}", path.display())))
}

/// Whether this machine has so much memory free. Where it does not say, the allocation shows it.
fn check_memory(bytes: u64) -> Result<(), Failure> {
    let Ok(topology) = Topology::discover(Path::new("/")) else {
        return Ok(());
    };
    let allowed: u64 = topology.allowed_bytes().iter().sum();
    match bytes <= allowed {
        true => Ok(()),
        false => Err(Failure::Impossible(format!(
            "--memory: there are {} MB for this process, not {} MB",
            allowed >> 20,
            bytes >> 20
        ))),
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let key = args.key_file.as_deref().map(key).transpose()?;
    if key.is_none() && !args.listen.ip().is_loopback() && !args.no_protected_mode {
        return Err(Failure::Impossible(format!(
            "--listen {}: other machines are served with --key-file only, or with \
             --no-protected-mode",
            args.listen
        )));
    }
    check_memory(args.memory)?;
    let bytes = usize::try_from(args.memory).map_err(Failure::impossible)?;
    let memory = MemoryServer::new(bytes).map_err(Failure::impossible)?;
    let memory = memory.with_finders(args.offload_threads.into());
    let is_protected = key.is_some();
    let server = args
        .fabric
        .bind(args.listen, memory, key)
        .map_err(|error| Failure::Impossible(format!("--listen {}: {error}", args.listen)))?;
    let address = server.address().map_err(Failure::failed)?;
    let protection = match is_protected {
        true => "for who has the key",
        false => "for everybody who can connect",
    };
    tell(format_args!(
        "{} MB {protection}; ready at {address}",
        bytes >> 20
    ));
    server.serve().map_err(Failure::failed)
}
