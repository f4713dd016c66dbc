//! A store with its index in slow memory beside one with its index in DRAM.
//!
//! No value is cached, so each get is a walk through the index and a read of the disk: what Bando
//! et al. measure. A store for each kind of memory is loaded; then they take turns.

use timberline_io::Driver;
use timberline_store::{Options, Store};
use timberline_tier::emulator::{LineCounts, thread_counts};

use super::index_memory::{InSlowMemory, SlowMemory};
use super::{Measured, Outcome, Row, Run, SKEW, Setting, measured, one_line};
use crate::workload::{Permutation, Rng, Zipf};

/// How keys are drawn.
const DISTRIBUTIONS: [&str; 2] = ["uniform", "Zipf 0.99"];
/// Slices of gets in which a placement learns which keys are hot.
const WARMUP: usize = 3;

/// Measures gets from stores whose index is in DRAM, and in each of these kinds of memory, or what
/// there is time for until `is_over`, which then stays true.
///
/// # Errors
/// One line: a disk that fails, no memory, or a record that is not what was put.
pub fn measure_in_slow_memory(
    setting: &Setting,
    kinds: &[SlowMemory],
    is_over: &dyn Fn() -> bool,
) -> Result<Outcome, String> {
    measured(setting, is_over, |run, driver| run.indexes(driver, kinds))
}

/// A store that has turns with others.
struct Subject {
    name: String,
    store: Store,
    /// `None`: in DRAM.
    slow: Option<InSlowMemory>,
    /// By distribution of keys.
    gets: [Vec<Gets>; 2],
}

/// Gets of a slice.
struct Gets {
    measured: Measured,
    /// What the emulator charged for them.
    lines: LineCounts,
}

impl Gets {
    /// Lines of slow memory that a get read.
    fn slow_lines(&self) -> f64 {
        self.measured.of_each(self.lines.slow as f64)
    }

    /// Microseconds that the thread waited for slow memory in a get: what nothing else hid.
    fn waited_us(&self) -> f64 {
        let ps = self.lines.waited_ps + self.lines.charged_ps;
        self.measured.of_each(ps as f64 / 1e6)
    }
}

impl Run<'_> {
    fn indexes(&mut self, driver: &mut Driver, kinds: &[SlowMemory]) -> Result<(), String> {
        let setting = self.setting;
        let options = Options {
            cache_bytes: 0,
            ..setting.options()
        };
        let folder = setting.folder.join("dram");
        let (_, stats) = self.load(driver, &folder, &options)?;
        let mut subjects = vec![Subject {
            name: "DRAM".into(),
            store: self.open(driver, &folder, &options)?,
            slow: None,
            gets: Default::default(),
        }];
        for (nth, kind) in kinds.iter().enumerate() {
            if (self.is_over)() {
                return Ok(());
            }
            let folder = setting.folder.join(format!("slow {nth}"));
            let (index, slow) = kind.index(stats.index_bytes);
            let options = Options {
                index,
                ..options.clone()
            };
            self.load(driver, &folder, &options)?;
            let store = self.open(driver, &folder, &options)?;
            slow.charge(true);
            subjects.push(Subject {
                name: kind.to_string(),
                store,
                slow: Some(slow),
                gets: Default::default(),
            });
        }
        driver.block_on(self.turns(&mut subjects))?;
        self.compare(&subjects);
        for subject in subjects {
            subject.store.close();
            driver
                .block_on(subject.store.maintain())
                .map_err(one_line)?;
        }
        Ok(())
    }

    async fn turns(&mut self, subjects: &mut [Subject]) -> Result<(), String> {
        let setting = self.setting;
        let zipf = Zipf::new(setting.records, SKEW);
        let scattered = Permutation::new(setting.records, Rng::new(setting.seed, 2));
        let mut rng = Rng::new(setting.seed, 3);
        for distribution in 0..DISTRIBUTIONS.len() {
            for turn in 0..WARMUP + setting.rounds {
                for subject in &mut *subjects {
                    let draw = || match distribution {
                        0 => rng.below(setting.records),
                        _ => scattered.at(zipf.rank(&mut rng)),
                    };
                    let before = thread_counts();
                    let measured = self.gets(&subject.store, draw).await?;
                    let lines = thread_counts() - before;
                    if turn >= WARMUP {
                        subject.gets[distribution].push(Gets { measured, lines });
                    }
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, subjects: &[Subject]) {
        for (distribution, keys) in DISTRIBUTIONS.into_iter().enumerate() {
            for subject in subjects {
                let name = format!("{keys}, index in {}", subject.name);
                let measured = subject.gets[distribution].iter().map(|it| &it.measured);
                self.rows.push(Row::new(&name, measured));
            }
        }
        for (distribution, keys) in DISTRIBUTIONS.into_iter().enumerate() {
            let dram = &subjects[0].gets[distribution];
            for subject in &subjects[1..] {
                let (gets, name) = (&subject.gets[distribution], &subject.name);
                let ratios: Vec<f64> = { gets.iter().zip(dram) }
                    .map(|(slow, dram)| slow.measured.per_s / dram.measured.per_s)
                    .collect();
                self.figure(format!("{keys}: {name} ÷ DRAM"), &ratios);
                let lines: Vec<f64> = gets.iter().map(Gets::slow_lines).collect();
                self.figure(format!("{keys}: {name}: slow lines a get"), &lines);
                let waited: Vec<f64> = gets.iter().map(Gets::waited_us).collect();
                self.figure(format!("{keys}: {name}: us waited for them"), &waited);
            }
        }
        for subject in subjects {
            if let Some(slow) = &subject.slow {
                let name = format!("part of the index in fast memory: {}", subject.name);
                self.figure(name, &[slow.fast_part()]);
            }
        }
    }
}
