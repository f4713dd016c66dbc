//! Gets of random records, many under way, beside the disk's own random reads of the same files, in
//! shapes that tell what a get pays for: rates, and what one costs the processor.
//!
//! `random_gets FOLDER [RECORDS] [SECONDS] [MAP]` makes a store of records of 1,000 bytes there if
//! the folder is empty. MAP is the index's.

mod records;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::{Duration, Instant};

use fastrand::Rng;
use timberline_io::{BLOCK, Buffer, Disk, File, Mode};
use timberline_store::{Durability, IndexMap, IndexMemory, Options, Store, join};

const DEPTH: usize = 16;
const ROUNDS: usize = 25;
/// Bytes of a disk's sector.
const SECTOR: u64 = 512;
/// Bytes of a block.
const BYTES: u64 = BLOCK as u64;

/// Where a read begins in its block, and how many bytes it has.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Sectors of the block at which it may begin.
    starts: (u64, u64),
    bytes: u64,
    /// Whether it is of any file, or of the first.
    of_any: bool,
}

const SHAPES: [Shape; 6] = [
    Shape {
        name: "a block of the first file",
        starts: (0, 1),
        bytes: BYTES,
        of_any: false,
    },
    Shape {
        name: "a block",
        starts: (0, 1),
        bytes: BYTES,
        of_any: true,
    },
    Shape {
        name: "3 sectors in a block",
        starts: (0, 6),
        bytes: 3 * SECTOR,
        of_any: true,
    },
    Shape {
        name: "3 sectors in two blocks",
        starts: (6, 8),
        bytes: 3 * SECTOR,
        of_any: true,
    },
    Shape {
        name: "3 sectors anywhere",
        starts: (0, 8),
        bytes: 3 * SECTOR,
        of_any: true,
    },
    Shape {
        name: "two blocks",
        starts: (0, 1),
        bytes: 2 * BYTES,
        of_any: true,
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: random_gets FOLDER [RECORDS] [SECONDS] [MAP]")?;
    let records = arguments
        .next()
        .map_or(Ok(300_000), |it| it.parse::<u64>())?;
    let time = Duration::try_from_secs_f64(arguments.next().map_or(Ok(0.3), |it| it.parse())?)?;
    let map = arguments
        .next()
        .map_or(Ok(IndexMap::default()), |it| it.parse())?;
    let folder = Path::new(&folder);
    let (disk, mut driver) = Disk::open(DEPTH);

    let options = Options {
        durability: Durability::None,
        index: IndexMemory::plain(map),
        cache_bytes: 0,
        segment_bytes: 16 << 20,
        ..Options::default()
    };
    let start = Instant::now();
    let (store, report) = driver.block_on(Store::open_on(&disk, folder, options))?;
    println!("opened {} keys in {:.1?}", report.keys, start.elapsed());
    let load = async {
        let start = Instant::now();
        for key in report.keys as u64..records {
            records::put(&store, key).await;
        }
        println!(
            "put {} in {:.1?}",
            records - report.keys as u64,
            start.elapsed()
        );
        store.close();
    };
    let ((), maintained) = driver.block_on(join(load, store.maintain()));
    maintained?;
    let index = store.stats().index_bytes as f64 / records as f64;
    println!("index: {map}, {index:.1} bytes a record");

    let files = segments(&disk, folder)?;
    let mut rows = vec![Vec::new(); SHAPES.len() + 1];
    for round in 0..ROUNDS {
        let mut random = Rng::with_seed(7 + round as u64);
        for (shape, row) in SHAPES.iter().zip(&mut rows) {
            row.push(driver.block_on(repeat(time, || read(&files, shape, &mut random))));
        }
        let gets = repeat(time, || records::get(&store, random.u64(..records)));
        rows[SHAPES.len()].push(driver.block_on(gets));
    }
    println!("{:>24} {:>9} {:>12}", "", "a second", "CPU us each");
    let names = SHAPES.iter().map(|it| it.name).chain(["gets"]);
    for (name, row) in names.zip(&mut rows) {
        row.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
        let it = &row[ROUNDS / 2];
        let range = (row[0].per_s, row[ROUNDS - 1].per_s);
        println!(
            "{name:>24} {:>9.0} {:>12.1}  ({:.0}–{:.0})",
            it.per_s, it.cpu_us, range.0, range.1
        );
    }
    Ok(())
}

/// All segments of a store.
fn segments(disk: &Disk, folder: &Path) -> Result<Vec<(File, u64)>, Box<dyn Error>> {
    let is_segment = |it: &PathBuf| it.extension().is_some_and(|it| it == "segment");
    let mut paths: Vec<_> = disk.list(folder)?.into_iter().filter(is_segment).collect();
    paths.sort();
    let open = |path| {
        let file = disk.open_file(path, Mode::read().direct())?;
        let blocks = file.len()? / BYTES;
        Ok((file, blocks))
    };
    paths.iter().map(|it| open(it)).collect()
}

/// A random read.
fn read(
    files: &[(File, u64)],
    shape: &Shape,
    random: &mut Rng,
) -> impl Future<Output = ()> + use<> {
    // The last four have few records, or were made in advance.
    let files = if shape.of_any {
        &files[..files.len().saturating_sub(4).max(1)]
    } else {
        &files[..1]
    };
    let (file, blocks) = files[random.usize(..files.len())].clone();
    let (from, to) = shape.starts;
    let at = random.u64(..blocks - 2) * BYTES + random.u64(from..to) * SECTOR;
    let bytes = shape.bytes as usize;
    async move {
        let buffer = Buffer::for_reading(bytes).expect("there is memory");
        let (_, read) = file.read_exact(buffer, 0..bytes, at).await;
        read.expect("it is read");
    }
}

#[derive(Clone)]
struct Measured {
    per_s: f64,
    cpu_us: f64,
}

/// Keeps [`DEPTH`] futures under way.
async fn repeat<F: Future<Output = ()>>(time: Duration, mut make: impl FnMut() -> F) -> Measured {
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut ended = 0u64;
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
    let seconds = start.elapsed().as_secs_f64();
    Measured {
        per_s: ended as f64 / seconds,
        cpu_us: (cpu_time() - cpu).as_secs_f64() * 1e6 / ended as f64,
    }
}

/// Processor time of this process, in user and kernel mode.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
