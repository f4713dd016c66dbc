//! What maps are loaded with and asked for: workloads or a trace, and what their records look like.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use timberline_bench::run::{Form, Keys, Plan, Requests, What};
use timberline_bench::trace::Trace;
use timberline_bench::workload::{Distribution, KeySpace, Lines, Tpcc, Workload};

use crate::Failure;

/// No map answers so many requests a second.
const MOST_A_SECOND: f64 = 50e6;

/// Arguments that say what is asked.
#[derive(clap::Args)]
pub struct Loads {
    /// Records to load
    #[arg(long, default_value = "2M", value_parser = count, value_name = "N")]
    records: u64,
    /// Workloads to run, one after the other: hs-a…d, ycsb-a…f, tpcc (its accesses, as many warehouses as fit into --records; tpcc:W has W)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hs-c,ycsb-c",
        value_name = "NAMES"
    )]
    workloads: Vec<String>,
    /// Other request distribution for all workloads, e.g. `zipfian:0.8`, `selfsimilar:0.2`, `uniform`, `hotspot:0.05:0.9`
    #[arg(long, value_name = "SPEC")]
    distribution: Option<String>,
    /// Take the lines of this file for keys, with numbers behind them once all are taken [default: numbers of 64 bits]
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    keys: Option<PathBuf>,
    /// Bytes of a key, 8 to 128; above 8 for art and masstree: the number over and over
    #[arg(
        long,
        default_value_t = 8,
        value_name = "BYTES",
        conflicts_with = "keys"
    )]
    key_bytes: usize,
    /// Bytes of a value, 8 to 2048; above 8 they lie in blocks beside the leaves
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    value_bytes: usize,
    /// Replay this trace instead of a workload, at the times it tells, if it does: latencies then count from when a request was due
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How the trace is written [default: by its name], e.g. `alibaba`, `csv:key=lbn,op=op,read=28,write=2a,time=time,unit=us`, `u32`,
    /// `lines`
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<String>,
    /// Replay the trace so many times as fast as it was [default: 1]
    #[arg(
        long,
        value_name = "X",
        requires = "trace",
        conflicts_with = "closed_loop"
    )]
    speed: Option<f64>,
    /// Replay the trace as fast as the map answers, whatever times it tells
    #[arg(long, requires = "trace")]
    closed_loop: bool,
}

/// Reads `2M`, `200k`, `1000`.
pub fn count(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no count: give a number from 1 on, such as 2M, 200k or 5000");
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1_000),
        Some('m' | 'M') => (&text[..text.len() - 1], 1_000_000),
        Some('g' | 'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|&n| n > 0).ok_or_else(bad)
}

impl Loads {
    /// What each of the maps is asked, in rounds of `slice`.
    pub fn what(&self, threads: usize, slice: Duration, quick: bool) -> Result<Vec<What>, Failure> {
        let form = |keys| Form::new(keys, self.value_bytes).map_err(Failure::impossible);
        let numbers = || Keys::of_bytes(self.key_bytes).map_err(Failure::impossible);
        if let Some(path) = &self.trace {
            return Ok(vec![What {
                form: form(numbers()?)?,
                requests: self.open_trace(path, threads, slice)?,
            }]);
        }
        let records = match quick {
            true => self.records.min(200_000),
            false => self.records,
        };
        let (keys, space) = match &self.keys {
            None => (numbers()?, KeySpace::new(records)),
            Some(path) => {
                let lines = Lines::read(path).map_err(Failure::Impossible)?;
                (Keys::Lines(Arc::new(lines)), KeySpace::dense(records))
            }
        };
        let form = form(keys)?;
        let space = space.map_err(Failure::impossible)?;
        let distribution = self
            .distribution
            .as_deref()
            .map(Distribution::parse)
            .transpose();
        let distribution = distribution.map_err(Failure::impossible)?;
        let mut what = Vec::new();
        for name in &self.workloads {
            if let Some(tpcc) = Tpcc::parse(name, records) {
                let tpcc = tpcc.map_err(Failure::impossible)?;
                what.push(self.tpcc(tpcc, form.clone())?);
                continue;
            }
            let mut workload = Workload::parse(name).map_err(Failure::impossible)?;
            if let Some(distribution) = distribution {
                workload = workload.with_distribution(distribution);
            }
            what.push(What::stream(workload, space.clone(), form.clone()));
        }
        Ok(what)
    }

    /// TPC-C's accesses, which say themselves what their keys are and which of them are asked for.
    fn tpcc(&self, tpcc: Tpcc, form: Form) -> Result<What, Failure> {
        let others = [
            ("--distribution", self.distribution.is_some()),
            ("--keys", self.keys.is_some()),
        ];
        if let Some((option, _)) = others.into_iter().find(|(_, given)| *given) {
            let line = format!(
                "{} has keys and a distribution of its own: leave out {option}",
                tpcc.name()
            );
            return Err(Failure::Impossible(line));
        }
        Ok(What::tpcc(tpcc, form))
    }

    fn open_trace(
        &self,
        path: &Path,
        threads: usize,
        slice: Duration,
    ) -> Result<Requests, Failure> {
        let trace = Trace::open_as(path, self.trace_format.as_deref());
        let trace = trace.map_err(Failure::impossible)?;
        let impossible = |what: String| Failure::Impossible(format!("{}: {what}", path.display()));
        if trace.len() < threads {
            let requests = trace.len();
            return Err(impossible(format!(
                "{requests} requests are too few for {threads} threads: lower --threads"
            )));
        }
        let speed = match (self.closed_loop, trace.span_ns(), self.speed) {
            (true, ..) | (_, None, None) => None,
            (_, None, Some(_)) => {
                return Err(impossible(
                    "it tells no times to replay at a --speed; name their column and unit, e.g. csv:time=ts,unit=us".into(),
                ));
            }
            (_, Some(span), speed) => {
                Some(checked(speed, &trace, span, slice).map_err(impossible)?)
            }
        };
        let trace = Arc::new(trace);
        Ok(Requests::Trace { trace, speed })
    }

    /// How many times as fast as the trace its requests are made; `None` in a closed loop.
    pub fn speed(&self, plan: &Plan) -> Option<f64> {
        match &plan.what.first()?.requests {
            Requests::Trace { speed, .. } => *speed,
            Requests::Stream { .. } | Requests::Tpcc(_) => None,
        }
    }

    /// What a reader of the results has to know.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        let note = match (&self.trace, self.speed(plan)) {
            (None, _) => None,
            (Some(_), Some(speed)) => Some(format!(
                "The trace was replayed at {speed} times its speed; latencies count from when a request was due."
            )),
            (Some(_), None) if self.closed_loop => None,
            (Some(_), None) => Some(
                "The trace was replayed as fast as the map answers: no times with a unit are known of it \
                 (--trace-format csv:time=COLUMN,unit=us)."
                    .into(),
            ),
        };
        note.into_iter().collect()
    }
}

/// The speed, if a slice can be filled with requests at it, and not with more than any map answers.
fn checked(
    speed: Option<f64>,
    trace: &Trace,
    span_ns: u64,
    slice: Duration,
) -> Result<f64, String> {
    let speed = speed.unwrap_or(1.0);
    if !(speed.is_finite() && speed > 0.0) {
        return Err(format!("--speed {speed}: give a number above 0"));
    }
    let a_second = trace.len() as f64 / (span_ns.max(1) as f64 / 1e9) * speed;
    if a_second > MOST_A_SECOND {
        return Err(format!(
            "at a speed of {speed} it asks for {a_second:.0} requests a second, more than any map answers: lower --speed, or give \
             --closed-loop"
        ));
    }
    let seconds = slice.as_secs_f64();
    if a_second * seconds < 100.0 {
        return Err(format!(
            "at a speed of {speed} it asks for {a_second:.3} requests a second, too few for rounds of {seconds} s: raise --speed or \
             --seconds, or give --closed-loop"
        ));
    }
    Ok(speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(count("2M"), Ok(2_000_000));
        assert_eq!(count("200k"), Ok(200_000));
        assert_eq!(count("7"), Ok(7));
        for bad in ["", "0", "-1", "2X", "99999999999999G", "M"] {
            assert!(count(bad).unwrap_err().contains("2M"), "{bad}");
        }
    }
}
