//! A case: a workload over a distribution, as the request stream of each thread.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use timberline_bench::workload::{Distribution, KeySpace, Op, Stream, Workload};

/// The distribution of requests over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Uniform: all records are equally likely.
    Uniform,
    /// Zipf's law with θ = 0.99: over scattered records, or in ycsb-d over the latest.
    Zipf,
}

/// The requests of one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// `ycsb-a` … `ycsb-f`.
    pub workload: String,
    /// The distribution of its keys.
    pub spread: Spread,
}

impl Case {
    /// The workload.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn workload(&self) -> Result<Workload, String> {
        let workload = Workload::parse(&self.workload).map_err(|error| error.to_string())?;
        Ok(match self.spread {
            Spread::Uniform => workload.with_distribution(Distribution::Uniform),
            Spread::Zipf => workload,
        })
    }

    /// Whether the workload scans.
    pub fn scans(&self) -> bool {
        self.workload()
            .is_ok_and(|workload| workload.mix().scan > 0)
    }
}

/// A thread's requests. Inserts use ids after those of earlier cases.
pub struct Numbered {
    stream: Stream,
    loads: u64,
    /// Insert ids that earlier cases used.
    pub base: u64,
    /// Inserts so far.
    pub inserts: u64,
}

impl Numbered {
    /// The requests of `thread` of `threads` on a map of `loads` records, after earlier cases
    /// inserted `base` ids.
    ///
    /// # Errors
    /// One line: the workload is unknown, or the number of records is impossible.
    pub fn new(
        case: &Case,
        (loads, base): (u64, u64),
        seed: u64,
        (thread, threads): (u64, u64),
    ) -> Result<Numbered, String> {
        let space = KeySpace::dense(loads).map_err(|error| error.to_string())?;
        Ok(Numbered {
            stream: case.workload()?.stream(&space, seed, thread, threads),
            loads,
            base,
            inserts: 0,
        })
    }

    /// The next operation, and the id of its key.
    #[inline]
    pub fn next(&mut self) -> (Op, u64) {
        let request = self.stream.next();
        self.inserts += u64::from(request.op == Op::Insert);
        let beyond = request.key >= self.loads;
        let id = request.key + if beyond { self.base } else { 0 };
        (request.op, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_workload_is_named() {
        let case = Case {
            workload: "ycsb-x".into(),
            spread: Spread::Zipf,
        };
        let error = case.workload().unwrap_err();
        assert!(error.starts_with("unknown workload `ycsb-x`"), "{error}");
        assert!(!case.scans());
    }

    #[test]
    fn inserts_are_numbered_on_behind_those_of_earlier_cases() {
        let case = Case {
            workload: "ycsb-d".into(),
            spread: Spread::Uniform,
        };
        let mut requests = Numbered::new(&case, (100, 7), 1, (1, 2)).unwrap();
        let inserted = (0..1000).filter_map(|_| match requests.next() {
            (Op::Insert, id) => Some(id),
            (_, id) => {
                assert!(id < 100);
                None
            }
        });
        let inserted: Vec<u64> = inserted.collect();
        assert!(
            inserted
                .iter()
                .copied()
                .eq((0..).map(|nth| 100 + 7 + 1 + 2 * nth).take(inserted.len()))
        );
        assert_eq!(requests.inserts, inserted.len() as u64);
    }
}
