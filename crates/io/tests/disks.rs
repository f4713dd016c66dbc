//! Tests that hold for every kind of disk.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use timberline_io::{BLOCK, Buffer, Disk, Driver, Kind, Mode, Simulation, wait_for};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "timberline-io-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("there is a folder for temporary files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a test on each kind of disk that this machine has.
fn on_each(test: impl Fn(&Disk, Driver, &Path)) {
    let mut disks = vec![
        Disk::threads(3),
        Disk::threads(1),
        Disk::simulated(&Simulation::new(1)),
    ];
    match Disk::uring(8) {
        Ok(disk) => disks.push(disk),
        Err(error) => println!("skipped io_uring: {error}"),
    }
    for (disk, driver) in disks {
        println!("on {}", disk.kind());
        let folder = Folder::new();
        disk.create_folder(&folder.0).expect("a folder");
        test(&disk, driver, &folder.0);
    }
}

fn buffer(byte: u8, bytes: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(bytes).expect("there is memory");
    buffer.fill(byte);
    buffer
}

#[test]
fn what_is_written_is_read() {
    on_each(|disk, mut driver, folder| {
        for mode in [Mode::create(), Mode::create().direct()] {
            let file = disk.open_file(&folder.join("a"), mode).expect("it opens");
            let all = async {
                for block in 0..5u8 {
                    let (_, written) = file
                        .write_all(buffer(block + 1, BLOCK), 0..BLOCK, u64::from(block) * 4096)
                        .await;
                    written.expect("it is written");
                }
                file.sync().await.expect("it is synced");
                let (bytes, read) = file
                    .read_exact(buffer(0, 2 * BLOCK), 0..2 * BLOCK, 4096)
                    .await;
                read.expect("it is read");
                assert!(bytes[..BLOCK].iter().all(|&byte| byte == 2));
                assert!(bytes[BLOCK..].iter().all(|&byte| byte == 3));
            };
            driver.block_on(all);
            assert_eq!(file.len().expect("it has a length"), 5 * 4096);
            let mut bytes = vec![0; BLOCK];
            if !file.is_direct() {
                file.read_exact_now(&mut bytes, 4 * 4096)
                    .expect("it is read");
                assert!(bytes.iter().all(|&byte| byte == 5));
            }
        }
    });
}

#[test]
fn the_end_of_a_file_is_told() {
    on_each(|disk, mut driver, folder| {
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        let (bytes, written) = driver.block_on(file.write_all(buffer(7, BLOCK), 0..100, 0));
        written.expect("it is written");
        let (bytes, read) = driver.block_on(file.read(bytes, 0..BLOCK, 60));
        assert_eq!(read.expect("it is read"), 40);
        let (_, read) = driver.block_on(file.read_exact(bytes, 0..BLOCK, 60));
        assert_eq!(
            read.expect_err("it ends before").kind(),
            ErrorKind::UnexpectedEof
        );
        let mut few = [0; 50];
        let now = file
            .read_exact_now(&mut few, 60)
            .expect_err("it ends before");
        assert_eq!(now.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn names_are_made_changed_and_removed() {
    on_each(|disk, mut driver, folder| {
        let (a, b) = (folder.join("a"), folder.join("b"));
        let missing = disk
            .open_file(&a, Mode::read())
            .err()
            .expect("it is not there");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        drop(disk.open_file(&a, Mode::create()).expect("it opens"));
        assert_eq!(disk.list(folder).expect("a folder"), [a.as_path()]);
        disk.rename(&a, &b).expect("it is renamed");
        assert_eq!(disk.list(folder).expect("a folder"), [b.as_path()]);
        disk.sync_folder_now(folder).expect("it is synced");
        disk.remove_now(&b).expect("it is removed");
        assert!(disk.list(folder).expect("a folder").is_empty());
        assert_eq!(
            disk.remove_now(&b).expect_err("it is gone").kind(),
            ErrorKind::NotFound
        );
        drop(disk.open_file(&b, Mode::create()).expect("it opens"));
        let (removed, again) = (disk.remove(&b), disk.remove(&b));
        driver.block_on(removed).expect("it is removed");
        let gone = driver.block_on(again).expect_err("it is gone");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        let synced = driver.block_on(disk.sync_folder(folder));
        synced.expect("it is synced");
        // Nobody waits for it.
        drop(disk.sync_folder(folder));
        let nowhere = disk.list(&folder.join("nowhere")).expect_err("no folder");
        assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn many_requests_are_under_way() {
    on_each(|disk, driver, folder| {
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        file.allocate(64 * 4096).expect("there is space");
        assert_eq!(file.len().expect("it has a length"), 64 * 4096);
        let driver = driver.spawn().expect("there is a thread");
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let file = file.clone();
                scope.spawn(move || {
                    for block in (thread..64).step_by(4) {
                        let write =
                            file.write_all(buffer(block as u8, BLOCK), 0..BLOCK, block * 4096);
                        let (bytes, written) = wait_for(write);
                        written.expect("it is written");
                        let (bytes, read) =
                            wait_for(file.read_exact(bytes, 0..BLOCK, block * 4096));
                        read.expect("it is read");
                        assert!(bytes.iter().all(|&byte| byte == block as u8));
                    }
                });
            }
        });
        drop(driver);
        let (_, late) = wait_for(file.read(buffer(0, BLOCK), 0..BLOCK, 0));
        let late = late.expect_err("nobody drives the disk");
        assert_eq!(late.to_string(), "the disk's driver is gone");
    });
}

/// The thread of a ring turns once for a request that ends alone: what that wakes is no reason to
/// turn without a sleep.
#[test]
fn a_future_is_polled_once_for_each_request() {
    const READS: usize = 100;
    let (disk, mut driver) = match Disk::uring(8) {
        Ok(disk) => disk,
        Err(error) => return println!("skipped: {error}"),
    };
    let folder = Folder::new();
    let file = disk.open_file(&folder.0.join("a"), Mode::create());
    let file = file.expect("it opens");
    let read_all = async {
        let written = file.write_all(buffer(1, BLOCK), 0..BLOCK, 0).await.1;
        written.expect("it is written");
        for _ in 0..READS {
            let read = file.read_exact(buffer(0, BLOCK), 0..BLOCK, 0).await.1;
            read.expect("it is read");
        }
    };
    let (mut read_all, mut polls) = (std::pin::pin!(read_all), 0);
    driver.block_on(std::future::poll_fn(|context| {
        polls += 1;
        read_all.as_mut().poll(context)
    }));
    // A signal may end a sleep.
    assert!((READS..READS + READS / 2).contains(&polls), "{polls}");
}

/// However many end at once, what is asked for next is submitted before all are handed out.
#[test]
fn a_turn_hands_out_a_part_of_what_ended() {
    const READS: usize = 32;
    let (disk, mut driver) = match Disk::uring(READS) {
        Ok(disk) => disk,
        Err(error) => return println!("skipped: {error}"),
    };
    let folder = Folder::new();
    let file = disk.open_file(&folder.0.join("a"), Mode::create());
    let file = file.expect("it opens");
    let (_, written) = driver.block_on(file.write_all(buffer(1, BLOCK), 0..BLOCK, 0));
    written.expect("it is written");
    let read = |_| Box::pin(file.read_exact(buffer(0, BLOCK), 0..BLOCK, 0));
    let mut reads: Vec<_> = (0..READS).map(read).collect();
    let mut context = Context::from_waker(Waker::noop());
    while !reads.is_empty() {
        let before = reads.len();
        reads.retain_mut(|it| it.as_mut().poll(&mut context).is_pending());
        let ended = before - reads.len();
        assert!(ended <= READS / 4, "{ended} ended at once");
        if !reads.is_empty() {
            driver.turn(true);
        }
    }
}

/// Another driver carries out what its thread asks for, though nobody drives the first; a file
/// belongs to both. It ends with its own requests only.
#[test]
fn another_driver_serves_its_own_thread() {
    on_each(|disk, mut first, folder| {
        let path = folder.join("a");
        let file = disk.open_file(&path, Mode::create()).expect("it opens");
        let mut another = disk.another_driver(2).expect("there is one");
        let thread = std::thread::spawn({
            let file = file.clone();
            move || {
                let written = another.block_on(async {
                    // More than its depth.
                    for block in 0..10u8 {
                        let at = u64::from(block) * BLOCK as u64;
                        let (_, written) = file.write_all(buffer(block, BLOCK), 0..BLOCK, at).await;
                        written?;
                    }
                    file.sync().await
                });
                written.expect("it is written");
            }
        });
        thread.join().expect("it needs no other thread");
        for block in 0..10u8 {
            let at = u64::from(block) * BLOCK as u64;
            let (bytes, read) = first.block_on(file.read_exact(buffer(99, BLOCK), 0..BLOCK, at));
            read.expect("the first one goes on");
            assert!(bytes.iter().all(|&byte| byte == block));
        }
        let counts = disk.counts();
        assert_eq!((counts.reads, counts.writes, counts.syncs), (10, 10, 1));
    });
}

/// A driver that is a task serves the other tasks of its thread, though nobody drives the first,
/// and a call that blocks the thread is the first's.
#[cfg(target_os = "linux")]
#[test]
fn a_task_drives_the_disk_for_its_thread() {
    use std::future::poll_fn;
    use std::os::fd::AsFd;
    use std::pin::pin;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const TASKS: u8 = 20;
    on_each(|disk, first, folder| {
        let file = disk.open_file(&folder.join("a"), Mode::create());
        let file = file.expect("it opens");
        // Fewer than there are tasks.
        let driver = disk.task_driver(3).expect("the system gives a ring");
        assert_eq!(driver.is_some(), disk.kind() == Kind::Uring);
        let Some(driver) = driver else { return };
        let ring = driver.as_fd().try_clone_to_owned().expect("a descriptor");
        let is_readable = |millis| {
            let mut wanted = [PollFd::new(&ring, PollFlags::IN)];
            let most = Timespec::try_from(Duration::from_millis(millis));
            let most = most.expect("it is short");
            poll(&mut wanted, Some(&most)).expect("it can be waited for") > 0
        };
        // As an event loop does: a task is woken when the ring has something, and only then.
        let (sleeper, is_over) = (Mutex::new(None::<Waker>), AtomicBool::new(false));
        let watch = || {
            while !is_over.load(Relaxed) {
                if is_readable(1)
                    && let Some(waker) = sleeper.lock().unwrap().take()
                {
                    waker.wake();
                }
            }
        };
        let ended = async || {
            poll_fn(|context| {
                *sleeper.lock().unwrap() = Some(context.waker().clone());
                match is_readable(0) {
                    true => Poll::Ready(Ok(())),
                    false => Poll::Pending,
                }
            })
            .await
        };
        let (mut first, mut driving) = (Some(first), pin!(driver.run(ended)));
        let write = |block: u8| {
            let file = &file;
            async move {
                let at = u64::from(block) * BLOCK as u64;
                let (bytes, written) = file.write_all(buffer(block, BLOCK), 0..BLOCK, at).await;
                written.expect("it is written");
                let (bytes, read) = file.read_exact(bytes, 0..BLOCK, at).await;
                read.expect("it is read");
                assert!(bytes.iter().all(|&byte| byte == block));
            }
        };
        let mut tasks: Vec<_> = (0..TASKS).map(|it| Some(Box::pin(write(it)))).collect();
        let all = poll_fn(|context| {
            assert!(driving.as_mut().poll(context).is_pending());
            for task in &mut tasks {
                if task
                    .as_mut()
                    .is_some_and(|it| it.as_mut().poll(context).is_ready())
                {
                    *task = None;
                }
            }
            if tasks.iter().any(Option::is_some) {
                return Poll::Pending;
            }
            if let Some(first) = first.take() {
                let _driven = first.spawn().expect("the system gives a thread");
                wait_for(file.sync()).expect("nobody drives the task meanwhile");
            }
            Poll::Ready(())
        });
        std::thread::scope(|scope| {
            scope.spawn(watch);
            let done = catch_unwind(AssertUnwindSafe(|| wait_for(all)));
            is_over.store(true, Relaxed);
            done.expect("all were done");
        });
    });
}

#[test]
fn a_driver_sleeps_no_longer_than_it_is_to() {
    on_each(|_, mut driver, _| {
        let calls = AtomicUsize::new(0);
        let ten = std::future::poll_fn(|_| match calls.load(Relaxed) {
            ..10 => Poll::Pending,
            _ => Poll::Ready(()),
        });
        // Nothing else wakes it.
        driver.block_on_beside(ten, Duration::from_millis(1), || {
            calls.fetch_add(1, Relaxed);
        });
    });
}

#[test]
fn futures_may_be_dropped_at_any_time() {
    on_each(|disk, mut driver, folder| {
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        let (_, written) = driver.block_on(file.write_all(buffer(9, 64 * BLOCK), 0..64 * BLOCK, 0));
        written.expect("it is written");
        for turns in 0..4 {
            for _ in 0..50 {
                // More than the disk's depth: some have not begun when they are dropped.
                let mut futures: Vec<_> = (0..20)
                    .map(|block| {
                        Box::pin(file.read_exact(buffer(0, BLOCK), 0..BLOCK, block * 4096))
                    })
                    .collect();
                let mut context = Context::from_waker(Waker::noop());
                for future in &mut futures {
                    let _ = future.as_mut().poll(&mut context);
                }
                for _ in 0..turns {
                    driver.turn(false);
                }
            }
        }
        let (bytes, read) = driver.block_on(file.read_exact(buffer(0, BLOCK), 0..BLOCK, 4096));
        read.expect("it is read");
        assert!(bytes.iter().all(|&byte| byte == 9));
    });
}

#[test]
fn more_files_are_opened_and_closed_than_a_ring_knows() {
    on_each(|disk, mut driver, folder| {
        let path = folder.join("a");
        for round in 0..1500u32 {
            let file = disk.open_file(&path, Mode::create()).expect("it opens");
            let (_, read) = driver.block_on(file.read(buffer(0, BLOCK), 0..10, 0));
            assert_eq!(read.expect("it is read"), 0, "{round}");
        }
        // Closed files are open nowhere, once the driver has turned again and what it left to
        // another thread is done. That thread does one thing after the other.
        driver.turn(false);
        let removed = driver.block_on(disk.remove(&path));
        removed.expect("it is there");
        let links = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten();
        let open = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        assert_eq!(open.filter(|it| it.starts_with(folder)).count(), 0);
    });
}

#[test]
fn a_disk_that_lost_its_driver_fails_and_does_not_hang() {
    on_each(|disk, driver, folder| {
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        let mut early = Box::pin(file.sync());
        let polled = early.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(driver);
        // Whether it had begun or not, it ends.
        if polled.is_pending() {
            let _ = wait_for(early);
        }
        assert!(wait_for(file.sync()).is_err());
    });
}

/// A waker that panics, as code of others may.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics, on purpose");
    }
}

/// Requests that wait end while the first one's panic unwinds the driver.
#[test]
fn wakers_of_waiting_requests_may_panic_too() {
    on_each(|disk, driver, folder| {
        // Threads of their own carry out the others' requests.
        if disk.kind() == Kind::Threads {
            return;
        }
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        let bad = Waker::from(Arc::new(Panics));
        let mut requests: Vec<_> = (0..20).map(|_| Box::pin(file.sync())).collect();
        for request in &mut requests {
            let polled = request.as_mut().poll(&mut Context::from_waker(&bad));
            assert!(polled.is_pending());
        }
        let driven = catch_unwind(AssertUnwindSafe(|| {
            let mut driver = driver;
            driver.block_on(std::future::pending::<()>());
        }));
        assert!(driven.is_err(), "a waker panics");
        assert!(wait_for(file.sync()).is_err());
    });
}

#[test]
fn a_waker_that_panics_leaves_no_request_waiting() {
    on_each(|disk, driver, folder| {
        let file = disk
            .open_file(&folder.join("a"), Mode::create())
            .expect("it opens");
        let driver = driver.spawn().expect("a thread");
        let bad = Waker::from(Arc::new(Panics));
        // Each ends a thread at most, until none is left.
        for _ in 0..4 {
            let mut request = Box::pin(file.sync());
            let polled = request.as_mut().poll(&mut Context::from_waker(&bad));
            // The waker may be called on this thread, where the disk is gone already.
            if polled.is_pending() {
                let _ = wait_for(file.sync());
            }
        }
        let _ = wait_for(file.sync());
        drop(driver);
        assert!(wait_for(file.sync()).is_err());
    });
}
