//! Damaged headers of segments: none costs a record, and what is no segment is not taken for one.

use std::path::Path;

use timberline_io::{Disk, Mode, Simulation};
use timberline_store::{Damage, Error, Store};

use crate::expiry::remove_checkpoints;
use crate::{copy_in, options, simulated, with_store};

const PATH: &str = "store/000000.segment";
/// Bytes of a header.
const HEADER: usize = 36;
const KEYS: u32 = 300;

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 700]
}

/// A store of more than one segment.
async fn load(disk: &Disk) {
    with_store(disk, options(), async |store| {
        for key in 0..KEYS {
            let put = store.put(&key.to_le_bytes(), &value(key)).await;
            put.expect("there is space");
        }
    })
    .await;
}

fn header(disk: &Disk) -> [u8; HEADER] {
    let file = disk
        .open_file(Path::new(PATH), Mode::read())
        .expect("it is there");
    let mut bytes = [0; HEADER];
    file.read_exact_now(&mut bytes, 0).expect("it is read");
    bytes
}

fn flip(simulation: &Simulation, bit: usize) {
    let flipped = simulation.flip_bit(Path::new(PATH), bit as u64);
    flipped.expect("it is there");
}

/// Has the header be these bytes.
fn replace(simulation: &Simulation, disk: &Disk, new: &[u8; HEADER]) {
    let old = header(disk);
    for bit in 0..8 * HEADER {
        if (old[bit / 8] ^ new[bit / 8]) >> (bit % 8) & 1 == 1 {
            flip(simulation, bit);
        }
    }
}

#[test]
fn a_damaged_header_costs_nothing() {
    type Harm = fn(&Simulation, &Disk);
    let harms: [Harm; 6] = [
        |simulation, disk| replace(simulation, disk, &[0; HEADER]),
        |simulation, disk| replace(simulation, disk, &[0xff; HEADER]),
        |simulation, _| flip(simulation, 3),
        // Its version, its number, and the store's.
        |simulation, _| flip(simulation, 8 * 8 + 2),
        |simulation, _| {
            [12, 20]
                .into_iter()
                .for_each(|byte| flip(simulation, 8 * byte))
        },
        |simulation, _| {
            let lost = simulation.lose_sector(Path::new(PATH), 0);
            lost.expect("it is there");
        },
    ];
    for (nth, harm) in harms.iter().enumerate() {
        for with_checkpoint in [true, false] {
            let (simulation, disk, mut driver) = simulated(7);
            driver.block_on(async {
                load(&disk).await;
                harm(&simulation, &disk);
                if !with_checkpoint {
                    remove_checkpoints(&disk);
                }
                for round in 0..2 {
                    let opened = Store::open_on(&disk, Path::new("store"), options()).await;
                    let (store, report) = opened.unwrap_or_else(|it| panic!("{nth}: {it}"));
                    assert_eq!(report.headers, [Path::new(PATH)], "{nth}, {round}");
                    assert_eq!((report.keys, report.damaged), (KEYS as usize, vec![]));
                    for key in 0..KEYS {
                        let found = store.get(&key.to_le_bytes()).await.expect("it is read");
                        assert_eq!(found, Some(value(key)), "{nth}: {key}");
                    }
                    let check = store.check().await.expect("it is read");
                    let damaged = Damage {
                        path: PATH.into(),
                        place: 0..HEADER as u64,
                        keys: vec![],
                    };
                    assert_eq!(check.damaged, [damaged], "{nth}");
                }
            });
        }
    }
}

/// As when a new segment's header did not get to the disk.
#[test]
fn a_file_in_which_nothing_was_written_is_removed() {
    let (_, disk, mut driver) = simulated(8);
    driver.block_on(async {
        load(&disk).await;
        let path = Path::new("store/000777.segment");
        for bytes in [0, 100, 4096, 8192, 65_536] {
            copy_in(&disk, path, &vec![0; bytes]).await;
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let report = opened.expect("it opens").1;
            assert_eq!((report.keys, report.headers), (KEYS as usize, vec![]));
            let files = disk.list(Path::new("store")).expect("it is there");
            assert!(!files.iter().any(|it| it == path), "{bytes}");
        }
    });
}

#[test]
fn a_file_that_is_no_segment_is_refused() {
    let (simulation, disk, mut driver) = simulated(9);
    driver.block_on(async {
        load(&disk).await;
        let refused = async |path: &str| {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let error = opened.err().expect("it is refused");
            assert!(matches!(error, Error::Format(..)));
            let message = error.to_string();
            let message = message.strip_prefix(path).expect("it is named");
            message.strip_prefix(": ").expect("why").to_owned()
        };
        for name in ["000777", "letter", "0777", "ffffffff"] {
            let name = format!("store/{name}.segment");
            for bytes in [100, 4100, 8192] {
                copy_in(&disk, Path::new(&name), &vec![b'x'; bytes]).await;
                assert_eq!(refused(&name).await, "this is no segment of a store");
                disk.remove_now(Path::new(&name)).expect("it is there");
            }
        }
        // A whole header of a later version, of another number, and of another store.
        let header = header(&disk);
        let changed = |change: &dyn Fn(&mut [u8; HEADER])| {
            let mut new = header;
            change(&mut new);
            let checksum = crc32c::crc32c(&new[..32]);
            new[32..].copy_from_slice(&checksum.to_le_bytes());
            replace(&simulation, &disk, &new);
        };
        changed(&|it| it[8] = 5);
        assert_eq!(
            refused(PATH).await,
            "its format is version 5; this program reads 1 to 4"
        );
        changed(&|it| it[12] = 9);
        assert_eq!(refused(PATH).await, "it is segment 000009");
        changed(&|it| it[16] ^= 1);
        let next = "store/000001.segment";
        assert_eq!(
            refused(next).await,
            "it belongs to another store than the files before it"
        );
        changed(&|_| {});
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        assert_eq!(opened.expect("it opens").1.keys, KEYS as usize);
    });
}
