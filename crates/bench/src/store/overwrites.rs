//! Overwrites of random records, and gets beside them.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use timberline_store::Store;

use super::others::{Draw, Threads};
use super::outcome::{Figure, Measured, Row};
use super::process::folder_bytes;
use super::record::{KEY_BYTES, get, put};
use super::requests::Latencies;
use super::{Rounds, Run, Setting};
use crate::workload::Rng;

/// What is said of overwrites: how many, the bytes written for them, and the space at its peak.
pub fn overwritten(setting: &Setting, all: &[Measured], space: u64) -> (Row, [Figure; 2]) {
    let payload = (KEY_BYTES + setting.value_bytes) as f64;
    let written = |it: &Measured| it.usage.written_bytes as f64 / (it.done as f64 * payload);
    let written: Vec<f64> = all.iter().map(written).collect();
    let live = setting.records as f64 * payload;
    let figure = |name: &str, values: &[f64]| Figure {
        name: name.into(),
        values: Rounds::new(values),
    };
    let figures = [
        figure("bytes written ÷ bytes put, overwrites", &written),
        figure("space at its peak ÷ live bytes", &[space as f64 / live]),
    ];
    (Row::new("overwrites", all), figures)
}

impl Run<'_> {
    /// Puts of random records, in the steady state of the space, and gets beside them.
    pub async fn overwrites(&mut self, store: &Store) -> Result<(), String> {
        let setting = self.setting;
        let mut rng = Rng::new(setting.seed, 4);
        let before = self.half_before_cleaning(store, &mut rng).await?;
        let mut make = || {
            put(
                store.clone(),
                rng.below(setting.records),
                setting.value_bytes,
            )
        };
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
        self.gets_beside_puts(store, &mut rng, &before).await
    }

    /// Half of the requests are gets, half overwrites, as long as the store has space left. Returns
    /// the 99th percentiles of what gets take.
    async fn half_before_cleaning(
        &mut self,
        store: &Store,
        rng: &mut Rng,
    ) -> Result<Vec<f64>, String> {
        let mut all = Vec::new();
        let cleaned = store.stats().cleaned;
        for _ in 0..self.setting.rounds {
            let (_, p99_us) = self.half(store, rng).await?;
            if store.stats().cleaned > cleaned {
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
        store: &Store,
        rng: &mut Rng,
        before: &[f64],
    ) -> Result<(), String> {
        let (mut all, mut slower) = (Vec::new(), Vec::new());
        let mut p99s_us = Vec::new();
        let records = self.setting.records;
        let any: Draw = Arc::new(move |rng| rng.below(records));
        for _ in 0..self.setting.rounds {
            let alone = self.gets(store, (&any, rng), Threads::ONE).await?;
            let (half, p99_us) = self.half(store, rng).await?;
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
    async fn half(&mut self, store: &Store, rng: &mut Rng) -> Result<(Measured, f64), String> {
        let setting = self.setting;
        let of_gets = RefCell::new(Latencies::default());
        let make = || {
            let (store, id) = (store.clone(), rng.below(setting.records));
            let (is_get, of_gets) = (rng.bits() & 1 == 0, &of_gets);
            async move {
                if !is_get {
                    return put(store, id, setting.value_bytes).await;
                }
                let start = Instant::now();
                let done = get(store, id, setting.value_bytes).await;
                of_gets.borrow_mut().record(start.elapsed());
                done
            }
        };
        let slice = setting.for_a_slice();
        let measured = self.run(Some(store), make, slice).await?;
        Ok((measured, of_gets.into_inner().p99_us()))
    }
}
