//! What opening refuses: wrong options, a folder in use. Files that are none of its own are in
//! `headers.rs`.

use std::path::Path;

use timberline_io::Disk;
use timberline_store::{Error, Options, Store};

use crate::{SEGMENT, options, simulated};

#[test]
fn options_that_cannot_be_are_named() {
    let (_, disk, mut driver) = simulated(10);
    for (options, message) in [
        (
            Options {
                segment_bytes: 1000,
                ..options()
            },
            "segments of 1000 bytes: they have 65536 to 134217728, in multiples of 4096",
        ),
        (
            Options {
                capacity: 5 * SEGMENT,
                ..options()
            },
            "a capacity of 327680 bytes: with segments of 65536 it is at least 524288",
        ),
    ] {
        let opened = driver.block_on(Store::open_on(&disk, Path::new("store"), options));
        assert_eq!(opened.err().expect("it is refused").to_string(), message);
    }
}

#[test]
fn a_folder_is_open_once_at_a_time() {
    let folder = std::env::temp_dir().join(format!("timberline-in-use-{}", std::process::id()));
    let (disk, mut driver) = Disk::threads(2);
    driver.block_on(async {
        let open = async || Store::open_on(&disk, &folder, options()).await;
        disk.create_folder(&folder).expect("it is made");
        assert!(
            Store::options_of(&disk, &folder)
                .expect("it is read")
                .is_none()
        );
        let (first, _) = open().await.expect("nobody has it");
        let clone = first.clone();
        drop(first);
        match open().await {
            Err(Error::InUse(named)) => assert_eq!(named, folder),
            other => panic!("{:?}", other.map(|it| it.1)),
        }
        drop(clone);
        let (again, _) = open().await.expect("it was given back");
        drop(again);
        let found = Store::options_of(&disk, &folder).expect("it is read");
        assert_eq!(found.map(|it| it.segment_bytes), Some(crate::SEGMENT));
    });
    std::fs::remove_dir_all(&folder).expect("it is there");
}
