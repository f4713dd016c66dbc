//! `timberline backup` and `timberline restore`: copies of stores, and stores made from them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use timberline_io::Disk;
use timberline_store::{Copied, Error, Store, join};

use crate::say::say;
use crate::{Failure, folder};

#[derive(clap::Args)]
#[command(after_help = "A backup is a store of its own: `check` reads it, `serve` serves it.")]
pub struct Backup {
    /// Folder of a store that no server has open, or a server's ADDRESS:PORT, which is an IP
    /// address and no name
    from: String,
    /// New or empty folder; of a server's: its name, below the folder that it was given with
    /// --backups
    to: String,
    /// File with the server's password; its first line counts
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Restore {
    /// Folder of a backup
    backup: PathBuf,
    /// New or empty folder for the store
    to: PathBuf,
}

/// Requests to the disk at once.
const DEPTH: usize = 32;
/// What to name instead of a folder that is not there.
const SERVER: &str = "a server is named by its IP address and port, such as 127.0.0.1:6379";
/// What to name instead of a file.
const NEW: &str = "give a new or empty folder";

pub fn backup(args: &Backup) -> Result<(), Failure> {
    if let Ok(server) = args.from.parse::<SocketAddr>() {
        let password = args.password_file.as_deref();
        let password = password.map(crate::serve::password).transpose()?;
        return say(ask(server, password.as_deref(), &args.to)?);
    }
    let (from, to) = (Path::new(&args.from), Path::new(&args.to));
    let (disk, mut driver) = Disk::open(DEPTH);
    let options = folder::options_of(&disk, from).map_err(|it| it.and(SERVER))?;
    folder::there_or_new(to).map_err(|it| it.and(NEW))?;
    let copied = driver.block_on(async {
        let (store, report) = Store::open_on(&disk, from, options).await?;
        for loss in report.losses(|key| key) {
            // A closed stderr ends no backup.
            let _ = writeln!(std::io::stderr(), "warning: {loss}");
        }
        let work = async {
            let copied = store.backup(to).await;
            store.close();
            copied
        };
        let (copied, maintained) = join(work, store.maintain()).await;
        maintained.and(copied)
    });
    said(copied.map_err(|error| refused(&error, "or name its server's address"))?)
}

pub fn restore(args: &Restore) -> Result<(), Failure> {
    folder::there(&args.backup).map_err(|it| it.and("give the folder of a backup"))?;
    folder::there_or_new(&args.to).map_err(|it| it.and(NEW))?;
    let (disk, mut driver) = Disk::open(DEPTH);
    let restored = driver.block_on(Store::restore(&disk, &args.backup, &args.to));
    said(restored.map_err(|error| refused(&error, "or restore from a backup of it"))?)
}

fn said(copied: Copied) -> Result<(), Failure> {
    let Copied { segments, bytes } = copied;
    say(format_args!("{segments} segments, {bytes} bytes"))
}

/// Why nothing was copied; of a store that is open, what else is possible.
fn refused(error: &Error, otherwise: &str) -> Failure {
    match error {
        Error::InUse(_) => Failure::Impossible(format!("{error}, {otherwise}")),
        _ => folder::unread(error),
    }
}

/// Has a server make a backup. Returns what it said.
fn ask(server: SocketAddr, password: Option<&str>, name: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{server}: {error}"));
    let mut stream = TcpStream::connect(server).map_err(failed)?;
    let mut replies = BufReader::new(stream.try_clone().map_err(failed)?);
    let mut send = |words: &[&str]| {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(command.as_bytes()).map_err(failed)?;
        let mut reply = String::new();
        replies.read_line(&mut reply).map_err(failed)?;
        match reply.trim_end().split_at_checked(1) {
            Some(("+", said)) => Ok(said.trim_start_matches("OK ").to_string()),
            Some(("-", said)) => Err(Failure::Impossible(format!(
                "{server}: {}",
                said.trim_start_matches("ERR ")
            ))),
            _ => Err(Failure::Failed(format!(
                "{server}: it does not answer as a server of Timberline"
            ))),
        }
    };
    if let Some(password) = password {
        send(&["AUTH", password])?;
    }
    send(&["BACKUP", name])
}
