//! Time series: samples by sensor and second, in two tiers of memory.
//!
//! A key of eight bytes is a tuple of two numbers, so the samples of a sensor ascend by time.
//! Samples that are read often move to fast memory, here the last hour of each sensor.

use timberline::{BTree, Error};

/// Samples by sensor and second.
pub type Series = BTree<(u32, u32), f64>;

/// A map in 1 MiB of fast memory, and samples of this many sensors and seconds.
pub fn record(sensors: u32, seconds: u32) -> Result<Series, Error> {
    let series = Series::builder().fast_memory(1 << 20).build()?;
    for second in 0..seconds {
        for sensor in 0..sensors {
            let degrees = 20.0 + f64::from(sensor) + f64::from(second % 60) / 60.0;
            series.insert(&(sensor, second), degrees)?;
        }
    }
    Ok(series)
}

/// The mean of a sensor's samples from one second to another, without that; `None` without samples.
pub fn mean(series: &Series, sensor: u32, from: u32, to: u32) -> Option<f64> {
    let (mut sum, mut samples) = (0.0, 0);
    for (_, degrees) in series.range((sensor, from)..(sensor, to)) {
        sum += degrees;
        samples += 1;
    }
    (samples > 0).then(|| sum / f64::from(samples))
}

/// Removes a sensor's samples before a second. Returns how many there were.
pub fn forget(series: &Series, sensor: u32, before: u32) -> usize {
    let old = series.range((sensor, 0)..(sensor, before));
    old.filter(|(key, _)| series.remove(key).is_some()).count()
}

/// Prints means of the last hour, and what is left when the rest is forgotten.
pub fn main() -> Result<(), Error> {
    const MORNING: u32 = 6 * 3_600;
    let series = record(4, MORNING)?;
    for sensor in 0..4 {
        let mean = mean(&series, sensor, MORNING - 3_600, MORNING);
        println!("sensor {sensor}: {mean:.2?} °C in the last hour");
    }
    let (fast, slow) = series.committed();
    println!(
        "{} samples in {fast} fast and {slow} slow bytes",
        series.len()
    );
    let gone: usize = (0..4)
        .map(|sensor| forget(&series, sensor, MORNING - 3_600))
        .sum();
    println!("{gone} forgotten, {} left", series.len());
    Ok(())
}
