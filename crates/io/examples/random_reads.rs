//! Random reads of 4 KiB past the page cache: how many a second, and what one costs the processor.
//!
//! `random_reads FILE [MEBIBYTES] [SECONDS]` makes the file if it is not there.

use std::error::Error;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use timberline_io::{BLOCK, Buffer, Disk, Driver, Mode};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: random_reads FILE [MEBIBYTES] [SECONDS]")?;
    let bytes = arguments.next().map_or(Ok(1024), |it| it.parse::<u64>())? << 20;
    let time = Duration::from_secs(arguments.next().map_or(Ok(2), |it| it.parse())?);
    println!(
        "{:>9} {:>5} {:>10} {:>12}",
        "disk", "depth", "reads/s", "CPU us/read"
    );
    for round in 0..3 {
        for depth in [1, 16, 64] {
            for (disk, driver) in [Disk::open(depth), Disk::threads(depth)] {
                let (reads, cpu) = measure(&disk, driver, Path::new(&path), bytes, depth, time)?;
                if round > 0 {
                    let per_second = reads as f64 / time.as_secs_f64();
                    let micros = cpu.as_secs_f64() * 1e6 / reads as f64;
                    println!(
                        "{:>9} {depth:>5} {per_second:>10.0} {micros:>12.1}",
                        disk.kind()
                    );
                }
            }
        }
    }
    Ok(())
}

/// Reads with this many under way, and the processor time of the whole process meanwhile.
fn measure(
    disk: &Disk,
    mut driver: Driver,
    path: &Path,
    bytes: u64,
    depth: usize,
    time: Duration,
) -> Result<(u64, Duration), Box<dyn Error>> {
    let file = disk.open_file(path, Mode::create().direct())?;
    while file.len()? < bytes {
        let (len, step) = (file.len()?, 4 << 20);
        let mut buffer = Buffer::zeroed(step)?;
        buffer.fill(1);
        driver.block_on(file.write_all(buffer, 0..step, len)).1?;
    }
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut reads = 0;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % (bytes / BLOCK as u64) * BLOCK as u64
    };
    let mut buffers = Vec::new();
    for _ in 0..depth {
        buffers.push(Buffer::zeroed(BLOCK)?);
    }
    let read = |buffer, offset| Box::pin(file.read_exact(buffer, 0..BLOCK, offset));
    let mut under_way: Vec<_> = buffers.into_iter().map(|it| read(it, next())).collect();
    driver.block_on(std::future::poll_fn(|context| {
        for slot in &mut under_way {
            while let Poll::Ready((buffer, result)) = slot.as_mut().poll(context) {
                if let Err(error) = result {
                    return Poll::Ready(Err(error));
                }
                reads += 1;
                *slot = read(buffer, next());
            }
        }
        if start.elapsed() < time {
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    }))?;
    Ok((reads, cpu_time() - cpu))
}

/// Processor time of this process, in user and kernel mode.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
