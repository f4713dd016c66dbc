//! `timberline check`.

mod command;
mod scratch;

use std::path::{Path, PathBuf};
use std::process::Command;

use command::{refused, stderr, stdout, timberline};
use scratch::{Scratch, remove_checkpoints};
use serde_json::Value;
use timberline_io::Disk;
use timberline_store::{Options, Store, join};

fn check(folder: &Path, args: &[&str]) -> Command {
    let mut command = timberline();
    command.arg("check").arg(folder).args(args);
    command
}

/// A store of 2,000 records, closed.
fn made(folder: &Path) {
    let (disk, mut driver) = Disk::threads(2);
    driver.block_on(async {
        let options = Options {
            segment_bytes: 64 << 10,
            ..Options::default()
        };
        let (store, _) = Store::open_on(&disk, folder, options).await.unwrap();
        let work = async {
            for nth in 0..2000 {
                let key = format!("key {nth:04}\n");
                store.put(key.as_bytes(), &[7; 200]).await.unwrap();
            }
            store.close();
        };
        join(work, store.maintain()).await.1.unwrap();
    });
}

/// The largest file: a segment with records.
fn segment(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(7).any(|part| part == b"key 000")
    });
    files.min().unwrap()
}

/// Flips a bit of a byte.
fn flip(file: &Path, byte: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[byte] ^= 1;
    std::fs::write(file, &bytes).unwrap();
}

#[test]
fn a_store_without_damage_passes_and_a_damaged_one_is_reported() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    made(&folder);
    let output = check(&folder, &[]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("2000 keys, 2000 records read\n"),
        "{}",
        stdout(&output)
    );

    let file = segment(&folder);
    flip(&file, 20_000);
    let output = check(&folder, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: damaged places: 1\n");
    let text = stdout(&output);
    assert!(
        text.contains("are damaged; values lost: 1 (\"key "),
        "{text}"
    );

    let output = check(&folder, &["--json"]).output().unwrap();
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let damaged = &json["damaged"][0];
    assert_eq!(damaged["lost_keys"].as_array().unwrap().len(), 1);
    assert!(damaged["from"].as_u64() <= Some(20_000) && damaged["to"].as_u64() > Some(20_000));

    flip(&file, 20_000);
    flip(&file, 10);
    let output = check(&folder, &[]).output().unwrap();
    assert_eq!(stderr(&output), "error: damaged places: 1\n");
    let text = stdout(&output);
    assert!(text.starts_with("2000 keys, 2000 records read\n"), "{text}");
    let header = "bytes 0 to 36 are damaged; it is the header, which is not needed\n";
    assert!(text.ends_with(header), "{text}");
}

/// Where no checkpoint knows a record, opening the store drops it. Its key is named all the same.
#[test]
fn a_record_that_opening_drops_is_reported_with_its_key() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    made(&folder);
    remove_checkpoints(&folder);
    let file = segment(&folder);
    flip(&file, 20_000);
    let output = check(&folder, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.starts_with("1999 keys, 1999 records read\n"), "{text}");
    assert!(
        text.contains("are damaged; values lost: 1 (\"key "),
        "{text}"
    );
}

/// A segment that a checkpoint knows was never removed or cut off by the store.
#[test]
fn a_segment_that_is_missing_or_cut_off_is_reported() {
    let scratch = Scratch::new();
    for (name, is_missing) in [("missing", true), ("cut off", false)] {
        let folder = scratch.path(name);
        made(&folder);
        let file = segment(&folder);
        let all = std::fs::read(&file).unwrap();
        match is_missing {
            true => std::fs::remove_file(&file).unwrap(),
            false => std::fs::write(&file, &all[..20_480]).unwrap(),
        }
        let output = check(&folder, &["--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = "error: segments that lack records: 1\n";
        assert_eq!(stderr(&output), error, "{name}");
        let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let shortened = &json["shortened"][0];
        assert_eq!(shortened["file"].as_str(), file.to_str());
        let named = if is_missing { "lost_keys" } else { "end" };
        assert!(shortened[named].as_u64() > Some(0), "{shortened}");
    }
}

/// Without a checkpoint, opening the store misses the piece; with one, it is known where it was.
#[test]
fn a_damaged_piece_is_reported_with_its_place_and_the_record_that_names_it() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    let (disk, mut driver) = Disk::threads(2);
    driver.block_on(async {
        let options = Options {
            segment_bytes: 64 << 10,
            ..Options::default()
        };
        let (store, _) = Store::open_on(&disk, &folder, options).await.unwrap();
        let work = async {
            for key in [&b"big"[..], b"2", b"3", b"4"] {
                store.put(key, &[8; 3 * 8152]).await.unwrap();
            }
            store.close();
        };
        join(work, store.maintain()).await.1.unwrap();
    });
    let file = folder.join("000000.segment");
    flip(&file, 20_000);

    let output = check(&folder, &[]).output().unwrap();
    assert_eq!(stderr(&output), "error: damaged places: 1\n");
    let place = format!(
        "{}: bytes 12288 to 20480 are damaged; values lost: 1 (\"big\")\n",
        file.display()
    );
    let text = stdout(&output);
    assert!(text.ends_with(&place), "{text}");

    remove_checkpoints(&folder);
    let output = check(&folder, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let all = "error: damaged places: 1; values that lack pieces: 1\n";
    assert_eq!(stderr(&output), all);
    let record = format!(
        "{}: the record at byte 28672 is whole, but 1 of the 3 pieces of its value are gone; \
         values lost: 1 (\"big\")\n",
        file.display()
    );
    let text = stdout(&output);
    assert!(text.ends_with(&(place + &record)), "{text}");
    let output = check(&folder, &["--json"]).output().unwrap();
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let lacking = &json["values_that_lack_pieces"][0];
    assert_eq!(lacking["byte"], 28672);
    assert_eq!(
        (&lacking["missing_pieces"], &lacking["pieces"]),
        (&1.into(), &3.into())
    );

    let mut backup = timberline();
    let output = backup.arg("backup").arg(&folder).arg(scratch.path("copy"));
    let output = output.output().unwrap();
    assert!(output.status.success());
    let lost = "warning: lost: the value of \"big\", of which pieces are gone\n";
    assert!(stderr(&output).contains(lost), "{}", stderr(&output));
}

#[test]
fn what_is_no_store_is_left_alone() {
    let scratch = Scratch::new();
    let empty = scratch.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let line = refused(check(&empty, &[]));
    assert!(line.contains("there is no store"), "{line}");
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    let line = refused(check(&scratch.path("none"), &[]));
    assert!(line.contains("there is no such folder"), "{line}");
}

#[test]
fn a_store_that_is_open_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.path("store");
    made(&folder);
    let (disk, mut driver) = Disk::threads(2);
    let open = driver
        .block_on(Store::open_on(&disk, &folder, Options::default()))
        .unwrap();
    let line = refused(check(&folder, &[]));
    assert!(line.contains("open elsewhere"), "{line}");
    drop(open);
}
