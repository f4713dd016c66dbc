//! The simulated disk: its faults, and the data that must survive a crash.

use std::io::ErrorKind;
use std::path::Path;

use timberline_io::{Buffer, Disk, Driver, Faults, File, Mode, SECTOR, Simulation, is_unreadable};

const FILE: &str = "folder/file";

fn opened(simulation: &Simulation) -> (Disk, Driver, File) {
    let (disk, driver) = Disk::simulated(simulation);
    disk.create_folder(Path::new("folder")).expect("a folder");
    let file = disk
        .open_file(Path::new(FILE), Mode::create())
        .expect("it opens");
    (disk, driver, file)
}

fn filled(byte: u8, bytes: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(bytes).expect("there is memory");
    buffer.fill(byte);
    buffer
}

fn content(disk: &Disk) -> Option<Vec<u8>> {
    let file = disk.open_file(Path::new(FILE), Mode::read()).ok()?;
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_exact_now(&mut bytes, 0).expect("it is read");
    Some(bytes)
}

/// A file of ones that is synced with its name; then twos over a part of it, which are not.
fn half_synced(seed: u64) -> Simulation {
    let simulation = Simulation::new(seed);
    let (disk, mut driver, file) = opened(&simulation);
    driver.block_on(async {
        file.write_all(filled(1, 8192), 0..8192, 0)
            .await
            .1
            .expect("it is written");
        file.sync().await.expect("it is synced");
        disk.sync_folder_now(Path::new("folder"))
            .expect("it is synced");
        file.write_all(filled(2, 4096), 0..4000, 1000)
            .await
            .1
            .expect("it is written");
        file.write_all(filled(3, 4096), 0..4096, 8192)
            .await
            .1
            .expect("it is written");
    });
    simulation
}

#[test]
fn a_crash_keeps_what_was_synced_and_tears_the_rest() {
    let (mut none, mut all, mut torn, mut longer) = (0, 0, 0, 0);
    for seed in 0..300 {
        let after = half_synced(seed).crash();
        let bytes = content(&Disk::simulated(&after).0).expect("its name was synced");
        assert!(bytes[..1000].iter().all(|&byte| byte == 1));
        assert!(bytes[5000..8192].iter().all(|&byte| byte == 1));
        // Each sector is of the old or of the new.
        let (head, rest) = bytes[1000..5000].split_at(SECTOR - 1000 % SECTOR);
        let sectors: Vec<&[u8]> = std::iter::once(head).chain(rest.chunks(SECTOR)).collect();
        assert!(
            sectors
                .iter()
                .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
        );
        let new = sectors.iter().filter(|sector| sector[0] == 2).count();
        none += usize::from(new == 0);
        all += usize::from(new == sectors.len());
        torn += usize::from(0 < new && new < sectors.len());
        longer += usize::from(bytes.len() > 8192);
    }
    assert!(
        none > 50 && all > 50 && torn > 50 && longer > 50,
        "{none} {all} {torn} {longer}"
    );
}

#[test]
fn one_seed_is_one_disk() {
    for seed in 0..20 {
        let runs = [(); 2].map(|()| {
            let crashed = half_synced(seed).crash();
            (content(&Disk::simulated(&crashed).0), crashed.now_ns())
        });
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn a_name_that_was_not_synced_may_be_gone() {
    let (mut there, mut gone) = (0, 0);
    for seed in 0..100 {
        let simulation = Simulation::new(seed);
        let (_disk, mut driver, file) = opened(&simulation);
        driver.block_on(async {
            file.write_all(filled(1, 4096), 0..4096, 0)
                .await
                .1
                .expect("it is written");
            file.sync().await.expect("it is synced");
        });
        match content(&Disk::simulated(&simulation.crash()).0) {
            None => gone += 1,
            Some(bytes) => {
                assert_eq!(bytes, [1; 4096]);
                there += 1;
            }
        }
    }
    assert!(there > 20 && gone > 20, "{there} {gone}");
}

#[test]
fn after_a_failed_sync_the_bytes_may_never_be_there() {
    let mut lost = 0;
    for seed in 0..100 {
        let simulation = half_synced(seed);
        let (disk, mut driver) = Disk::simulated(&simulation);
        let file = disk
            .open_file(Path::new(FILE), Mode::create())
            .expect("it opens");
        simulation.set_faults(Faults {
            failed_sync: 1.0,
            ..Faults::default()
        });
        assert!(driver.block_on(file.sync()).is_err());
        simulation.set_faults(Faults::default());
        driver.block_on(file.sync()).expect("later syncs succeed");
        // Until the crash, reads see the new bytes all the same.
        assert_eq!(content(&disk).expect("it is there")[2000], 2);
        let after = Disk::simulated(&simulation.crash()).0;
        lost += usize::from(content(&after).expect("its name was synced")[2000] != 2);
    }
    assert!((10..90).contains(&lost), "{lost}");
}

#[test]
fn short_transfers_are_repeated() {
    let simulation = Simulation::new(5);
    let (_disk, mut driver, file) = opened(&simulation);
    simulation.set_faults(Faults {
        short: 0.9,
        ..Faults::default()
    });
    driver.block_on(async {
        let (_, written) = file.write_all(filled(4, 64 * 1024), 0..64 * 1024, 0).await;
        written.expect("it is written");
        let (bytes, read) = file.read_exact(filled(0, 64 * 1024), 0..64 * 1024, 0).await;
        read.expect("it is read");
        assert!(bytes.iter().all(|&byte| byte == 4));
    });
    assert!(simulation.requests() > 10, "none was short");
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again() {
    let simulation = Simulation::new(6);
    let (disk, mut driver, file) = opened(&simulation);
    simulation.set_faults(Faults {
        capacity: 10_000,
        ..Faults::default()
    });
    driver.block_on(async {
        file.write_all(filled(1, 8192), 0..8192, 0)
            .await
            .1
            .expect("it fits");
        let (_, full) = file.write_all(filled(1, 4096), 0..4096, 8192).await;
        assert_eq!(
            full.expect_err("it does not fit").kind(),
            ErrorKind::StorageFull
        );
        file.write_all(filled(2, 4096), 0..4096, 0)
            .await
            .1
            .expect("there is space for it");
    });
    let other = disk
        .open_file(Path::new("folder/other"), Mode::create())
        .expect("it opens");
    assert_eq!(
        other.allocate(4096).expect_err("full").kind(),
        ErrorKind::StorageFull
    );
    file.set_len(4096).expect("shorter is always possible");
    other.allocate(4096).expect("there is space");
    assert_eq!(simulation.used(), 8192);
}

#[test]
fn requests_fail_where_they_are_told_to() {
    let work = |faults: Faults| {
        let simulation = Simulation::new(7);
        simulation.set_faults(faults);
        let (disk, mut driver) = Disk::simulated(&simulation);
        let result = driver.block_on(async {
            disk.create_folder(Path::new("folder"))?;
            let file = disk.open_file(Path::new(FILE), Mode::create())?;
            file.write_all(filled(1, 4096), 0..4096, 0).await.1?;
            file.sync().await?;
            disk.sync_folder_now(Path::new("folder"))
        });
        (result, simulation.requests())
    };
    let (result, requests) = work(Faults::default());
    result.expect("nothing fails");
    for n in 0..requests {
        let failed = work(Faults {
            failed_request: Some(n),
            ..Faults::default()
        });
        assert!(failed.0.is_err(), "request {n} of {requests}");
        let off = work(Faults {
            power_off: Some(n),
            ..Faults::default()
        });
        assert!(
            off.0
                .expect_err("the power is off")
                .to_string()
                .starts_with("the power is off")
        );
    }
}

#[test]
fn bits_flip() {
    let simulation = half_synced(8);
    let before = content(&Disk::simulated(&simulation).0).expect("it is there");
    simulation
        .flip_bit(Path::new(FILE), 8 * 100 + 3)
        .expect("it is there");
    let after = content(&Disk::simulated(&simulation).0).expect("it is there");
    assert_eq!(after[100], before[100] ^ 8);
    let missing = simulation
        .flip_bit(Path::new("folder/none"), 0)
        .expect_err("no file");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_lost_sector_is_unreadable_until_it_is_written() {
    let simulation = Simulation::new(1);
    let (_, mut driver, file) = opened(&simulation);
    let whole = 8 * SECTOR;
    driver.block_on(async {
        let (buffer, written) = file.write_all(filled(7, whole), 0..whole, 0).await;
        written.expect("it is written");
        let path = Path::new("folder/file");
        simulation
            .lose_sector(path, 3 * SECTOR as u64 + 5)
            .expect("it is there");
        let (buffer, read) = file.read_exact(buffer, 0..whole, 0).await;
        assert!(is_unreadable(&read.expect_err("a sector is lost")));
        let (buffer, read) = file.read_exact(buffer, 0..3 * SECTOR, 0).await;
        read.expect("it is before the lost sector");
        let behind = 4 * SECTOR as u64;
        let (buffer, read) = file.read_exact(buffer, 0..4 * SECTOR, behind).await;
        read.expect("it is behind");
        let (buffer, written) = file.write_all(buffer, 0..SECTOR, 3 * SECTOR as u64).await;
        written.expect("it is written");
        file.read_exact(buffer, 0..whole, 0)
            .await
            .1
            .expect("it was written again");
    });
}

#[test]
fn requests_under_way_complete_in_any_order_and_take_virtual_time() {
    let simulation = Simulation::new(9);
    let (_disk, mut driver, file) = opened(&simulation);
    let order = std::cell::RefCell::new(Vec::new());
    let write = async |block: u64| {
        file.write_all(filled(1, 4096), 0..4096, block * 4096)
            .await
            .1
            .expect("it is written");
        order.borrow_mut().push(block);
    };
    driver.block_on(async {
        let mut writes: Vec<_> = (0..8).map(|block| Box::pin(write(block))).collect();
        std::future::poll_fn(|context| {
            writes.retain_mut(|it| it.as_mut().poll(context).is_pending());
            if writes.is_empty() {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    });
    let order = order.into_inner();
    assert_eq!(order.len(), 8);
    assert!(!order.is_sorted(), "{order:?}");
    assert!(simulation.now_ns() > 0);
}
