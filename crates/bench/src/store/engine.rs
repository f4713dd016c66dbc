//! Any other store under the same load, by threads that wait.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::overwrites::overwritten;
use super::process::{Usage, folder_bytes, peak_memory, reset_peak_memory};
use super::record::{Key, lost};
use super::requests::Latencies;
use super::{Figure, GOT, Measured, Outcome, Rounds, Row, Setting};
use crate::workload::{Permutation, Rng};
use timberline_tier::emulator::LineCounts;

/// What a store does for the bench. Errors are one line.
pub trait Engine: Sync {
    /// Sets a key's value. It may be lost until the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// It can't.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String>;

    /// Shows a key's value, and says whether there is one.
    ///
    /// # Errors
    /// It can't.
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String>;

    /// Waits until all that was put is on the disk.
    ///
    /// # Errors
    /// It can't.
    fn sync(&self) -> Result<(), String>;

    /// Puts records as fast as this store can, and has them on the disk.
    ///
    /// # Errors
    /// It can't.
    fn load(&self, records: &mut dyn Iterator<Item = (Key, Vec<u8>)>) -> Result<(), String> {
        for (key, value) in records {
            self.put(&key, &value)?;
        }
        self.sync()
    }
}

/// Opens a store in a folder, new or as it was, with the setting's memory.
pub type Open<'a> = &'a dyn Fn(&Path, &Setting) -> Result<Box<dyn Engine>, String>;

/// Measures what [`measure`](super::measure) does, but for the disk's own reads, with a thread for
/// each request in flight.
///
/// # Errors
/// One line: what the store could not do.
pub fn measure_engine(
    setting: &Setting,
    disk: &str,
    open: Open,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, String> {
    reset_peak_memory();
    let made = super::Made(setting.folder.clone());
    std::fs::create_dir_all(&setting.folder).map_err(|error| error.to_string())?;
    let mut run = Run {
        setting,
        is_over,
        rows: Vec::new(),
        figures: Vec::new(),
    };
    run.load(&*open(&setting.folder, setting)?)?;
    let start = Instant::now();
    let engine = open(&setting.folder, setting)?;
    run.figure(
        "seconds to open it after a stop",
        &[start.elapsed().as_secs_f64()],
    );
    run.reads(&*engine)?;
    run.overwrites(&*engine)?;
    drop(engine);
    drop(made);
    if let Some(peak) = peak_memory() {
        let ratio = peak as f64 / setting.memory_bytes as f64;
        run.figure("memory at its peak ÷ the limit", &[ratio]);
    }
    Ok(Outcome {
        disk: disk.into(),
        rows: run.rows,
        figures: run.figures,
    })
}

struct Run<'a> {
    setting: &'a Setting,
    is_over: &'a (dyn Fn() -> bool + Sync),
    rows: Vec<Row>,
    figures: Vec<Figure>,
}

impl Run<'_> {
    fn figure(&mut self, name: &'static str, values: &[f64]) {
        let (name, values) = (name.into(), Rounds::new(values));
        self.figures.push(Figure { name, values });
    }

    fn load(&mut self, engine: &dyn Engine) -> Result<(), String> {
        let setting = self.setting;
        let order = Permutation::new(setting.records, Rng::new(setting.seed, 1));
        let ids = (0..setting.records).map(|nth| order.at(nth));
        let sizes = setting.sizes();
        let mut records = ids.map(|id| (sizes.key(id), sizes.value(id)));
        let (usage, start) = (Usage::now(), Instant::now());
        engine.load(&mut records)?;
        let loaded = Measured {
            done: setting.records,
            per_s: setting.records as f64 / start.elapsed().as_secs_f64(),
            usage: Usage::now().since(&usage),
            p50_us: f64::NAN,
            p99_us: f64::NAN,
            found_part: 1.0,
            lines: LineCounts::default(),
        };
        self.rows.push(Row::new("puts of new keys", &[loaded]));
        Ok(())
    }

    fn reads(&mut self, engine: &dyn Engine) -> Result<(), String> {
        let setting = self.setting;
        let [any, some] = GOT.map(|it| it.draw(setting.records, setting.seed));
        let [mut uniform, mut skewed] = [(); 2].map(|()| Vec::new());
        let for_a_slice = |_, elapsed| elapsed >= setting.slice;
        let any = |rng: &mut Rng| get(engine, setting, any(rng));
        let some = |rng: &mut Rng| get(engine, setting, some(rng));
        self.run(None, &some, &mut |done, _| done >= setting.warm)?;
        for round in 0..=setting.rounds {
            let of_any = self.run(None, &any, &mut { for_a_slice })?;
            let of_some = self.run(None, &some, &mut { for_a_slice })?;
            // The first round fills the caches.
            if round > 0 {
                uniform.push(of_any);
                skewed.push(of_some);
            }
        }
        for (popularity, gets) in GOT.iter().zip([&uniform, &skewed]) {
            self.rows
                .push(Row::new(&format!("gets, {popularity}"), gets));
        }
        Ok(())
    }

    fn overwrites(&mut self, engine: &dyn Engine) -> Result<(), String> {
        let setting = self.setting;
        let sizes = setting.sizes();
        let put = |rng: &mut Rng| {
            let id = rng.below(setting.records);
            engine.put(&sizes.key(id), &sizes.value(id))
        };
        let enough = setting.steady_after();
        self.run(Some(engine), &put, &mut |done, _| done >= enough)?;
        let (mut all, mut space) = (Vec::new(), 0);
        for _ in 0..setting.rounds {
            let mut looks = 0;
            let mut slice = |_: u64, elapsed: Duration| {
                looks += 1;
                if looks % 10 == 0 {
                    space = space.max(folder_bytes(&setting.folder));
                }
                elapsed >= setting.slice
            };
            all.push(self.run(Some(engine), &put, &mut slice)?);
            space = space.max(folder_bytes(&setting.folder));
        }
        let (row, figures) = overwritten(setting, &all, space);
        self.rows.push(row);
        self.figures.extend(figures);
        Ok(())
    }

    /// Runs requests until `is_enough` says so, of which it is asked a hundred times a second. What
    /// was put is synced each second, on `synced`.
    fn run(
        &self,
        synced: Option<&dyn Engine>,
        request: &(dyn Fn(&mut Rng) -> Result<(), String> + Sync),
        is_enough: &mut dyn FnMut(u64, Duration) -> bool,
    ) -> Result<Measured, String> {
        let (done, stop) = (&AtomicU64::new(0), &AtomicBool::new(false));
        let (failure, latencies) = (&Mutex::new(None), &Mutex::new(Latencies::default()));
        let seed = self.setting.seed;
        let (usage, start) = (Usage::now(), Instant::now());
        thread::scope(|scope| {
            for nth in 0..self.setting.in_flight {
                scope.spawn(move || {
                    // New draws in each run: it is as good as any seed.
                    let lane = start.elapsed().as_nanos() as u64 ^ (nth as u64) << 48;
                    let (mut rng, mut own) = (Rng::new(seed, lane), Latencies::default());
                    while !stop.load(Relaxed) {
                        let begun = Instant::now();
                        if let Err(why) = request(&mut rng) {
                            failure.lock().expect("no panic").get_or_insert(why);
                            stop.store(true, Relaxed);
                        }
                        own.record(begun.elapsed());
                        done.fetch_add(1, Relaxed);
                    }
                    latencies.lock().expect("no panic").add(&own);
                });
            }
            let mut seconds = 0;
            while !stop.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
                let elapsed = start.elapsed();
                if is_enough(done.load(Relaxed), elapsed) || (self.is_over)() {
                    stop.store(true, Relaxed);
                }
                if let Some(engine) = synced
                    && elapsed.as_secs() > seconds
                {
                    seconds = elapsed.as_secs();
                    if let Err(why) = engine.sync() {
                        failure.lock().expect("no panic").get_or_insert(why);
                        stop.store(true, Relaxed);
                    }
                }
            }
        });
        if let Some(why) = failure.lock().expect("no panic").take() {
            return Err(why);
        }
        let done = done.load(Relaxed);
        let elapsed = start.elapsed().as_secs_f64();
        let latencies = latencies.lock().expect("no panic");
        Ok(Measured {
            done,
            per_s: done as f64 / elapsed,
            usage: Usage::now().since(&usage),
            p50_us: latencies.p50_us(),
            p99_us: latencies.p99_us(),
            found_part: 1.0,
            lines: LineCounts::default(),
        })
    }
}

fn get(engine: &dyn Engine, setting: &Setting, id: u64) -> Result<(), String> {
    let (sizes, mut is_right) = (setting.sizes(), false);
    let mut show = |found: &[u8]| is_right = sizes.is_value(id, found);
    let is_there = engine.get(&sizes.key(id), &mut show)?;
    match is_there && is_right {
        true => Ok(()),
        false => Err(lost(id)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::record::Sizes;
    use super::super::setting::tests::setting;
    use super::*;

    /// In memory. Forgets each key that ends in this byte.
    #[derive(Default)]
    struct Forgetful(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>, Option<u8>);

    impl Engine for Forgetful {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
            if self.1.is_none_or(|it| key.last() != Some(&it)) {
                let mut map = self.0.lock().expect("no panic");
                map.insert(key.to_vec(), value.to_vec());
            }
            Ok(())
        }

        fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
            let map = self.0.lock().expect("no panic");
            Ok(map.get(key).map(|value| show(value)).is_some())
        }

        fn sync(&self) -> Result<(), String> {
            Ok(())
        }
    }

    fn sizes(value_bytes: usize) -> Sizes {
        Sizes {
            key_bytes: 16,
            value_bytes,
        }
    }

    fn measured(name: &str, open: Open) -> Result<Outcome, String> {
        let setting = Setting {
            in_flight: 3,
            threads: 1,
            rounds: 2,
            ..setting(&format!("engine-{name}"), 1000, 10)
        };
        let outcome = measure_engine(&setting, "none", open, &|| false);
        assert!(!setting.folder.exists(), "the folder is removed");
        outcome
    }

    #[test]
    fn any_store_is_measured() {
        let filled = Forgetful::default();
        let sizes = sizes(10);
        for id in 0..1000 {
            filled.put(&sizes.key(id), &sizes.value(id)).unwrap();
        }
        let content = filled.0.into_inner().unwrap();
        let open: Open = &|_, _| Ok(Box::new(Forgetful(Mutex::new(content.clone()), None)));
        let outcome = measured("whole", open).unwrap();
        let names: Vec<_> = outcome.rows.iter().map(|it| &*it.name).collect();
        assert_eq!(
            names,
            [
                "puts of new keys",
                "gets, uniform",
                "gets, Zipf 0.99",
                "overwrites"
            ]
        );
        assert!(outcome.rows.iter().all(|it| it.per_s.least > 0.0));
    }

    #[test]
    fn a_value_is_checked_whole() {
        let sizes = sizes(500);
        let right = sizes.value(3);
        assert!(sizes.is_value(3, &right) && !sizes.is_value(4, &right));
        let mut torn = right.clone();
        torn[499] ^= 1;
        assert!(!sizes.is_value(3, &torn) && !sizes.is_value(3, &right[..499]));
    }

    #[test]
    fn a_lost_record_is_found() {
        let open: Open = &|_, _| Ok(Box::new(Forgetful(Mutex::default(), Some(7))));
        let why = measured("lost", open).unwrap_err();
        assert!(why.contains("is not what was put"), "{why}");
    }
}
