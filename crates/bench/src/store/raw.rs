//! Reads of the disk alone, without a store.

use std::path::Path;

use timberline_io::{BLOCK, Buffer, Disk, File, Mode};

use super::one_line;

/// Reads a block.
pub async fn read_block(file: File, block: u64) -> Result<(), String> {
    let buffer = Buffer::for_reading(BLOCK).map_err(|_| "there is no memory left")?;
    let at = block * BLOCK as u64;
    let (_, read) = file.read_exact(buffer, 0..BLOCK, at).await;
    read.map_err(one_line)
}

/// The first segment, to read blocks of: loading has filled it.
pub fn first_segment(disk: &Disk, folder: &Path) -> Result<File, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let files = disk.list(folder).map_err(failed)?;
    let segments = files
        .into_iter()
        .filter(|it| it.extension().is_some_and(|it| it == "segment"));
    let first = segments.min();
    let first = first.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    disk.open_file(&first, Mode::read().direct())
        .map_err(failed)
}
