//! What gets and puts wait for while segments are cleaned and checkpoints are written, with gets
//! alone beside them: how much the thread does for others from a request's start to its end, and
//! how many requests there are for a second of its processor time. So neither the disk nor what
//! else the machine does counts.
//!
//! `beside_cleaning FOLDER [RECORDS] [REQUESTS] [ROUNDS]` makes a store of records of 1,000 bytes
//! there, which fill 80 % of its space, and overwrites them until cleaning has its steady state. A
//! folder in memory will do. One thread does everything, as in `timberline bench --store`.

mod records;

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use futures_util::stream::{FuturesUnordered, StreamExt};
use records::{get, put};
use timberline_io::Disk;
use timberline_store::{Durability, Options, Store, join};

/// Requests in flight.
const DEPTH: usize = 16;
/// Bytes of a record: header, key and value.
const RECORD: u64 = 1040;

/// What requests are.
#[derive(Clone, Copy, PartialEq)]
enum Mix {
    Gets,
    Both,
    Puts,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: beside_cleaning FOLDER [RECORDS] [REQUESTS] [ROUNDS]")?;
    let records = arguments
        .next()
        .map_or(Ok(300_000), |it| it.parse::<u64>())?;
    let requests = arguments
        .next()
        .map_or(Ok(40_000), |it| it.parse::<u64>())?;
    let rounds = arguments.next().map_or(Ok(5), |it| it.parse::<usize>())?;

    let (disk, mut driver) = Disk::open(64);
    let segment_bytes = 2 << 20;
    let options = Options {
        durability: Durability::None,
        capacity: (records * RECORD * 5 / 4).next_multiple_of(segment_bytes),
        segment_bytes,
        cache_bytes: 0,
        ..Options::default()
    };
    let (store, _) = driver.block_on(Store::open_on(&disk, Path::new(&folder), options))?;
    let work = async {
        let mut random = Rng::with_seed(7);
        let mut next = 0;
        let load = || {
            next += 1;
            put(&store, (next - 1) % records)
        };
        in_flight(load, |ended| ended >= records).await;
        let overwrites = records * 5 / 4;
        let overwrite = || put(&store, random.u64(..records));
        in_flight(overwrite, |ended| ended >= overwrites).await;
        let mut all = [(); 3].map(|()| Vec::new());
        for _ in 0..rounds {
            for (mix, rows) in [Mix::Gets, Mix::Both, Mix::Puts].into_iter().zip(&mut all) {
                rows.push(measure(&store, mix, records, requests, &mut random).await);
            }
        }
        let stats = store.stats();
        println!(
            "{} segments cleaned, {} records moved",
            stats.cleaned, stats.moved
        );
        store.close();
        all
    };
    let (mut all, maintained) = driver.block_on(join(work, store.maintain()));
    maintained?;
    println!("medians (least to greatest) of {rounds} rounds; microseconds");
    for (mix, rows) in [Mix::Gets, Mix::Both, Mix::Puts].into_iter().zip(&mut all) {
        if mix != Mix::Puts {
            report("gets", mix, rows, |it| &mut it.gets);
        }
        if mix != Mix::Gets {
            report("puts", mix, rows, |it| &mut it.puts);
        }
    }
    Ok(())
}

/// Processor time of the thread from the start to the end of each request, and in all.
#[derive(Default)]
struct Slice {
    seconds: f64,
    gets: Vec<Duration>,
    puts: Vec<Duration>,
}

fn report(
    name: &str,
    mix: Mix,
    slices: &mut [Slice],
    of: impl Fn(&mut Slice) -> &mut Vec<Duration>,
) {
    let beside = match (mix, name) {
        (Mix::Both, "gets") => " beside puts",
        (Mix::Both, _) => " beside gets",
        _ => "",
    };
    let mut columns = [(); 4].map(|()| Vec::new());
    for slice in slices {
        let seconds = slice.seconds;
        let times = of(slice);
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
        columns[0].push(times.len() as f64 / seconds);
        columns[1].push(at(0.5));
        columns[2].push(at(0.99));
        columns[3].push(at(0.999));
    }
    print!("{:>18}", format!("{name}{beside}"));
    for (column, title) in columns.iter_mut().zip(["a second", "p50", "p99", "p99.9"]) {
        column.sort_by(f64::total_cmp);
        let (least, most) = (column[0], column[column.len() - 1]);
        print!(
            "  {title} {:.0} ({least:.0}–{most:.0})",
            column[column.len() / 2]
        );
    }
    println!();
}

async fn measure(store: &Store, mix: Mix, records: u64, requests: u64, random: &mut Rng) -> Slice {
    let cpu = thread_time();
    let slice = Mutex::new(Slice::default());
    let make = || {
        let key = random.u64(..records);
        let is_put = mix == Mix::Puts || mix == Mix::Both && random.bool();
        let slice = &slice;
        async move {
            let start = thread_time();
            match is_put {
                true => put(store, key).await,
                false => get(store, key).await,
            }
            let mut slice = slice.lock().expect("no panic");
            match is_put {
                true => slice.puts.push(thread_time() - start),
                false => slice.gets.push(thread_time() - start),
            }
        }
    };
    in_flight(make, |ended| ended >= requests).await;
    let seconds = (thread_time() - cpu).as_secs_f64();
    Slice {
        seconds,
        ..slice.into_inner().expect("no panic")
    }
}

/// Keeps [`DEPTH`] futures under way until it is enough, and then ends those that were begun.
async fn in_flight<F: Future<Output = ()>>(
    mut make: impl FnMut() -> F,
    mut is_enough: impl FnMut(u64) -> bool,
) {
    let mut ended = 0;
    let mut under_way: FuturesUnordered<F> = (0..DEPTH).map(|_| make()).collect();
    while let Some(()) = under_way.next().await {
        ended += 1;
        if !is_enough(ended) {
            under_way.push(make());
        }
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
