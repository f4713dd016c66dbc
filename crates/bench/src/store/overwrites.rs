//! Overwrites of random records, and gets beside them.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::load::{Requests, Target};
use super::others::Threads;
use super::outcome::{Figure, Measured, Row};
use super::popularity::Popularity;
use super::process::folder_bytes;
use super::requests::Latencies;
use super::{Rounds, Run, Setting};
use crate::workload::Rng;

/// What is said of overwrites: how many, the bytes written for them, and the space at its peak.
pub fn overwritten(setting: &Setting, all: &[Measured], space: u64) -> (Row, [Figure; 2]) {
    let payload = (setting.key_bytes + setting.value_bytes) as f64;
    let written = |it: &Measured| it.usage.written_bytes as f64 / (it.done as f64 * payload);
    let written: Vec<f64> = all.iter().map(written).collect();
    let (of, bytes) = match setting.evict {
        true => ("the capacity", setting.options().capacity as f64),
        false => ("live bytes", setting.records as f64 * payload),
    };
    let figure = |name: String, values: &[f64]| Figure {
        name,
        values: Rounds::new(values),
    };
    let figures = [
        figure("bytes written ÷ bytes put, overwrites".into(), &written),
        figure(format!("space at its peak ÷ {of}"), &[space as f64 / bytes]),
    ];
    (Row::new("overwrites", all), figures)
}

impl Run<'_> {
    /// Puts of random records, in the steady state of the space, and gets beside them.
    pub async fn overwrites(&mut self, to: &Target) -> Result<(), String> {
        let setting = self.setting;
        let store = &to.store;
        let mut rng = Rng::new(setting.seed, 4);
        let before = self.half_before_cleaning(to, &mut rng).await?;
        let mut make = || to.clone().put(rng.below(setting.records));
        let enough = setting.steady_after();
        self.run(Some(store), &mut make, |done, _| done >= enough)
            .await?;
        let (mut all, mut space) = (Vec::new(), 0);
        for _ in 0..setting.rounds {
            let mut looked = Instant::now();
            let slice = |_: u64, elapsed: Duration| {
                if looked.elapsed() > Duration::from_millis(100) {
                    space = space.max(folder_bytes(&setting.folder));
                    looked = Instant::now();
                }
                elapsed >= setting.slice
            };
            all.push(self.run(Some(store), &mut make, slice).await?);
        }
        let (row, figures) = overwritten(setting, &all, space);
        self.rows.push(row);
        self.figures.extend(figures);
        self.gets_beside_puts(to, &mut rng, &before).await
    }

    /// Half of the requests are gets, half overwrites, as long as the store has space left. Returns
    /// the 99th percentiles of what gets take.
    async fn half_before_cleaning(
        &mut self,
        to: &Target,
        rng: &mut Rng,
    ) -> Result<Vec<f64>, String> {
        let mut all = Vec::new();
        let cleaned = || to.store.stats().cleaned;
        let before = cleaned();
        for _ in 0..self.setting.rounds {
            let (_, p99_us) = self.half(to, rng).await?;
            if cleaned() > before {
                break;
            }
            all.push(p99_us);
        }
        Ok(all)
    }

    /// Half of the requests are gets, whose latencies are beside those of gets alone, and those of
    /// the same requests `before` segments were cleaned.
    async fn gets_beside_puts(
        &mut self,
        to: &Target,
        rng: &mut Rng,
        before: &[f64],
    ) -> Result<(), String> {
        let (mut all, mut slower) = (Vec::new(), Vec::new());
        let mut p99s_us = Vec::new();
        let setting = self.setting;
        let gets = Requests {
            to: to.clone(),
            draw: Popularity::Uniform.draw(setting.records, setting.seed),
            writes: 0.0,
        };
        for _ in 0..setting.rounds {
            let alone = self.requests(&gets, rng, Threads::ONE).await?;
            let (half, p99_us) = self.half(to, rng).await?;
            all.push(half);
            p99s_us.push(p99_us);
            slower.push(p99_us / alone.p99_us);
        }
        self.rows.push(Row::new("half gets, half overwrites", &all));
        let cleaning: Vec<f64> = { p99s_us.iter().zip(before) }
            .map(|(beside, before)| beside / before)
            .collect();
        if !cleaning.is_empty() {
            let name = "99th percentile of these gets ÷ before segments were cleaned";
            self.figure(name, &cleaning);
        }
        let name = "99th percentile of these gets ÷ of gets alone";
        self.figure(name, &slower);
        Ok(())
    }

    /// Half of the requests are gets, half overwrites, for a slice. Returns the 99th percentile of
    /// what gets take, too.
    async fn half(&mut self, to: &Target, rng: &mut Rng) -> Result<(Measured, f64), String> {
        let setting = self.setting;
        let of_gets = RefCell::new(Latencies::default());
        let make = || {
            let (to, id) = (to.clone(), rng.below(setting.records));
            let (is_get, of_gets) = (rng.bits() & 1 == 0, &of_gets);
            async move {
                if !is_get {
                    return to.put(id).await;
                }
                let start = Instant::now();
                let is_there = to.find(id).await?;
                of_gets.borrow_mut().record(start.elapsed());
                match is_there {
                    true => Ok(()),
                    false => to.put(id).await,
                }
            }
        };
        let slice = setting.for_a_slice();
        let measured = self.run(Some(&to.store), make, slice).await?;
        Ok((measured, of_gets.into_inner().p99_us()))
    }
}
