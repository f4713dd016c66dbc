//! What opening refuses: other stores' files, wrong options, a folder in use.

use std::path::Path;

use timberline_io::Disk;
use timberline_store::{Error, Options, Store};

use crate::{SEGMENT, options, simulated, with_store};

#[test]
fn another_stores_file_is_refused() {
    let (_, disk, mut driver) = simulated(9);
    let wrong = async |change: &dyn Fn(&mut [u8])| {
        let path = Path::new("other/000000.segment");
        with_store(&disk, options(), async |store| {
            store.put(b"a", b"1").await.expect("it is put");
        })
        .await;
        let from = disk
            .open_file(
                Path::new("store/000000.segment"),
                timberline_io::Mode::read(),
            )
            .expect("it opens");
        let mut bytes = timberline_io::Buffer::zeroed(SEGMENT as usize).expect("memory");
        from.read_exact_now(&mut bytes, 0).expect("it is read");
        change(&mut bytes);
        disk.create_folder(Path::new("other")).expect("a folder");
        let to = disk
            .open_file(path, timberline_io::Mode::create())
            .expect("it opens");
        to.write_all(bytes, 0..SEGMENT as usize, 0)
            .await
            .1
            .expect("it is written");
        let opened = Store::open_on(&disk, Path::new("other"), options()).await;
        opened.err().expect("it is refused").to_string()
    };
    driver.block_on(async {
        let name = "other/000000.segment: ";
        let message = wrong(&|bytes| bytes[0] = b'X').await;
        assert_eq!(message, format!("{name}this is no segment of a store"));
        let message = wrong(&|bytes| bytes[8] = 4).await;
        assert_eq!(
            message,
            format!("{name}its format is version 4; this program reads 1 to 3")
        );
        let message = wrong(&|bytes| bytes[20] ^= 1).await;
        assert_eq!(message, format!("{name}its header is damaged"));
    });
}

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
        assert!(!Store::is_in(&disk, &folder).expect("it is read"));
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
        assert!(Store::is_in(&disk, &folder).expect("it is read"));
    });
    std::fs::remove_dir_all(&folder).expect("it is there");
}
