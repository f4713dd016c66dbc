//! Folders that commands are given.

use std::io::ErrorKind;
use std::path::Path;

use timberline_io::Disk;
use timberline_store::{Error, Options, Store};

use crate::Failure;

/// Refuses what is no folder.
pub fn there(path: &Path) -> Result<(), Failure> {
    let reason = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "this is no folder".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => "there is no such folder".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::Impossible(format!("{}: {reason}", path.display())))
}

/// The same, where the folder need not be there yet.
pub fn there_or_new(path: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => there(path),
    }
}

/// The options of the store in a folder, which is refused if there is none.
pub fn options_of(disk: &Disk, folder: &Path) -> Result<Options, Failure> {
    there(folder)?;
    let options = Store::options_of(disk, folder).map_err(Failure::impossible)?;
    options.ok_or_else(|| {
        let folder = folder.display();
        Failure::Impossible(format!("{folder}: there is no store"))
    })
}

/// Why a store was not read.
pub fn unread(error: &Error) -> Failure {
    match error {
        Error::InUse(_) | Error::Format(..) => Failure::impossible(error),
        _ => Failure::failed(error),
    }
}
