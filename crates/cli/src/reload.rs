//! `timberline reload`: a cluster's data, from its nodes' logs, after memory servers were lost.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use timberline_remote::Etcd;
use timberline_remote::fabric::FabricKind;
use timberline_server::{ClusterOptions, Error, reload};

use crate::cluster::refused;
use crate::parse::address;
use crate::pool::key;
use crate::say::tell;
use crate::{Failure, folder};

#[derive(clap::Args)]
pub struct Args {
    /// Folders of all nodes (--dir), or backups of them; without one of them, its keys are lost
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Memory servers without data, in the order that the nodes will be given
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_parser = address,
        value_name = "ADDRESS:PORT"
    )]
    servers: Vec<SocketAddr>,
    /// How the memory servers are reached: what they were started with
    #[arg(long, default_value_t, value_name = "tcp|libfabric:PROVIDER")]
    fabric: FabricKind,
    /// File with the key that the memory servers have
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The etcd that the nodes will be given (--etcd), if they will be given one
    #[arg(long, value_parser = Etcd::new, value_name = "URLS")]
    etcd: Option<Etcd>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    for path in &args.folders {
        folder::there(path)?;
    }
    let mut options = ClusterOptions::new(args.servers.clone());
    options.fabric = args.fabric.clone();
    options.key = args.key_file.as_deref().map(key).transpose()?;
    options.etcd.clone_from(&args.etcd);
    // Nobody waits for a reply meanwhile.
    options.deadline = Duration::from_secs(10);
    let reloaded = reload(&options, &args.folders).map_err(|error| match error {
        Error::System(_) => Failure::failed(error),
        _ => refused(&error),
    })?;
    tell(format_args!(
        "{} keys are in the pool, of {} records in {} logs",
        reloaded.keys,
        reloaded.records,
        args.folders.len()
    ));
    Ok(())
}
