//! Gets of random records, many under way, beside the disk's own random reads: rates, and what one
//! costs the processor.
//!
//! `random_gets FOLDER [RECORDS] [SECONDS]` makes a store of records of 1,000 bytes there if the
//! folder is empty.

use std::error::Error;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use timberline_io::{BLOCK, Buffer, Disk, Mode};
use timberline_store::{Durability, Options, Store, join};

const DEPTH: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: random_gets FOLDER [RECORDS] [SECONDS]")?;
    let records = arguments
        .next()
        .map_or(Ok(300_000), |it| it.parse::<u64>())?;
    let time = Duration::from_secs(arguments.next().map_or(Ok(2), |it| it.parse())?);
    let folder = Path::new(&folder);
    let (disk, mut driver) = Disk::open(DEPTH);

    let options = Options {
        durability: Durability::None,
        ..Options::default()
    };
    let start = Instant::now();
    let (store, report) = driver.block_on(Store::open_on(&disk, folder, options))?;
    println!("opened {} keys in {:.1?}", report.keys, start.elapsed());
    let load = async {
        let start = Instant::now();
        for key in report.keys as u64..records {
            store.put(&name(key), &[key as u8; 1000]).await?;
        }
        println!(
            "put {} in {:.1?}",
            records - report.keys as u64,
            start.elapsed()
        );
        store.close();
        Ok::<(), timberline_store::Error>(())
    };
    let (loaded, maintained) = driver.block_on(join(load, store.maintain()));
    loaded.and(maintained)?;

    let path = folder.join("000000.segment");
    let file = disk.open_file(&path, Mode::read().direct())?;
    let blocks = file.len()? / BLOCK as u64;
    println!("{:>10} {:>10} {:>12}", "", "a second", "CPU us each");
    for round in 0..4 {
        let mut random = Random(7 + round);
        let (reads, cpu) = driver.block_on(repeat(time, || {
            let (file, block) = (file.clone(), random.below(blocks));
            async move {
                let buffer = Buffer::zeroed(BLOCK).expect("there is memory");
                let (_, read) = file
                    .read_exact(buffer, 0..BLOCK, block * BLOCK as u64)
                    .await;
                read.expect("it is read");
            }
        }));
        show("raw reads", reads, cpu, time);
        let (gets, cpu) = driver.block_on(repeat(time, || {
            let (store, key) = (store.clone(), random.below(records));
            async move {
                let value = store.get(&name(key)).await.expect("it is read");
                assert_eq!(value.expect("it is there")[0], key as u8);
            }
        }));
        show("gets", gets, cpu, time);
    }
    Ok(())
}

fn show(what: &str, count: u64, cpu: Duration, time: Duration) {
    let (rate, each) = (
        count as f64 / time.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / count as f64,
    );
    println!("{what:>10} {rate:>10.0} {each:>12.1}");
}

/// A key of sixteen bytes, in no order.
fn name(key: u64) -> [u8; 16] {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut name = [0; 16];
    name[..8].copy_from_slice(&mixed.to_be_bytes());
    name[8..].copy_from_slice(&key.to_be_bytes());
    name
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Keeps [`DEPTH`] futures under way; returns how many ended, and the processor time.
async fn repeat<F: Future<Output = ()>>(
    time: Duration,
    mut make: impl FnMut() -> F,
) -> (u64, Duration) {
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut ended = 0;
    let mut under_way: Vec<_> = (0..DEPTH).map(|_| Box::pin(make())).collect();
    std::future::poll_fn(|context| {
        for slot in &mut under_way {
            while slot.as_mut().poll(context).is_ready() {
                ended += 1;
                slot.set(make());
            }
        }
        if start.elapsed() < time {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    (ended, cpu_time() - cpu)
}

/// Processor time of this process, in user and kernel mode.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
