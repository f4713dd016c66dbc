//! The distribution of requests over records: the parser of its names, and the sampler.

use std::fmt;

use super::hotspot::{HotEpoch, HotRegion, Hotspot};
use super::key_space::KeySpace;
use super::latest::Latest;
use super::permutation::Permutation;
use super::rng::{self, Rng};
use super::self_similar::SelfSimilar;
use super::stream::Inserts;
use super::zipf::Zipf;
use crate::BadInput;
use crate::names::suggestion;

/// The distribution of requests over records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All records are equally likely.
    Uniform,
    /// Zipf's law.
    Zipfian {
        /// The exponent, in `[0, 2)`. Higher is more skewed; 0 is uniform.
        theta: f64,
        /// Whether hot records are scattered over the key space instead of coming first.
        scrambled: bool,
    },
    /// A fraction `1 - h` of the requests goes to the first `h` of the records, at every scale.
    SelfSimilar {
        /// In `(0, 0.5]`; 0.2 is 80/20, 0.5 is uniform.
        h: f64,
        /// Whether hot records are scattered over the key space instead of coming first.
        scrambled: bool,
    },
    /// One contiguous region is hot, and may move.
    Hotspot {
        /// The region's fraction of the records, in `(0, 1]`.
        size: f64,
        /// The fraction of the requests to the region, in `[0, 1]`.
        share: f64,
    },
    /// Zipf's law over the age of records in inserts.
    Latest {
        /// The exponent, in `[0, 2)`.
        theta: f64,
    },
}

impl Distribution {
    /// The possible distributions, for messages and help.
    pub const POSSIBLE: &str = "uniform, zipfian[:THETA[:scrambled|unscrambled]], \
         selfsimilar[:H[:scrambled|unscrambled]], hotspot[:SIZE[:SHARE]], latest[:THETA]";

    /// Zipf's law as YCSB has it: θ = 0.99, scrambled.
    pub const YCSB_ZIPFIAN: Distribution = Distribution::Zipfian {
        theta: 0.99,
        scrambled: true,
    };
    /// YCSB's read latest.
    pub const YCSB_LATEST: Distribution = Distribution::Latest { theta: 0.99 };
    /// 90 % of the requests on 5 % of contiguous keys.
    pub const SIDLE_HOTSPOT: Distribution = Distribution::Hotspot {
        size: 0.05,
        share: 0.9,
    };

    /// Parses one of [`Distribution::POSSIBLE`], e.g. `zipfian:0.99`, `zipfian:1.2:unscrambled`,
    /// `hotspot:0.05:0.9`. Defaults: θ = 0.99 and scrambled; h = 0.2 and unscrambled (as in the
    /// paper); a hotspot of 0.05 that gets 0.9 of the requests.
    ///
    /// # Errors
    ///
    /// The name is unknown, or a number is out of range.
    pub fn parse(text: &str) -> Result<Distribution, BadInput> {
        let mut fields = text.split(':');
        let name = fields.next().unwrap_or_default();
        let mut number = |name: &str, default: f64, range: &str, fits: fn(f64) -> bool| {
            let Some(field) = fields.next() else {
                return Ok(default);
            };
            match field.parse() {
                Ok(value) if fits(value) => Ok(value),
                _ => Err(BadInput(format!(
                    "distribution `{text}`: {name} is `{field}`, possible is {range}"
                ))),
            }
        };
        let theta = |x: f64| (0.0..2.0).contains(&x);
        let theta_range = "a number from 0 to less than 2";
        let distribution = match name {
            "uniform" => Distribution::Uniform,
            "zipfian" => {
                let theta = number("THETA", 0.99, theta_range, theta)?;
                Distribution::Zipfian {
                    theta,
                    scrambled: scrambled(text, fields.next(), true)?,
                }
            }
            "selfsimilar" => {
                let h = number("H", 0.2, "a number above 0 and at most 0.5", |x| {
                    x > 0.0 && x <= 0.5
                })?;
                Distribution::SelfSimilar {
                    h,
                    scrambled: scrambled(text, fields.next(), false)?,
                }
            }
            "hotspot" => Distribution::Hotspot {
                size: number("SIZE", 0.05, "a fraction above 0 and at most 1", |x| {
                    x > 0.0 && x <= 1.0
                })?,
                share: number("SHARE", 0.9, "a fraction from 0 to 1", |x| {
                    (0.0..=1.0).contains(&x)
                })?,
            },
            "latest" => Distribution::Latest {
                theta: number("THETA", 0.99, theta_range, theta)?,
            },
            _ => {
                let possible = Distribution::POSSIBLE;
                let known = ["uniform", "zipfian", "selfsimilar", "hotspot", "latest"];
                let meant = suggestion(name, &known);
                return Err(BadInput(format!(
                    "unknown distribution `{name}`;{meant} possible: {possible}"
                )));
            }
        };
        match fields.next() {
            None => Ok(distribution),
            Some(extra) => {
                let possible = Distribution::POSSIBLE;
                Err(BadInput(format!(
                    "distribution `{text}`: `{extra}` is too much; possible: {possible}"
                )))
            }
        }
    }
}

fn scrambled(text: &str, field: Option<&str>, default: bool) -> Result<bool, BadInput> {
    match field {
        None => Ok(default),
        Some("scrambled") => Ok(true),
        Some("unscrambled") => Ok(false),
        Some(other) => Err(BadInput(format!(
            "distribution `{text}`: `{other}` is neither `scrambled` nor `unscrambled`"
        ))),
    }
}

/// The name that [`Distribution::parse`] reads.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = |scrambled| {
            if scrambled {
                "scrambled"
            } else {
                "unscrambled"
            }
        };
        match *self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipfian { theta, scrambled } => {
                write!(f, "zipfian:{theta}:{}", order(scrambled))
            }
            Distribution::SelfSimilar { h, scrambled } => {
                write!(f, "selfsimilar:{h}:{}", order(scrambled))
            }
            Distribution::Hotspot { size, share } => write!(f, "hotspot:{size}:{share}"),
            Distribution::Latest { theta } => write!(f, "latest:{theta}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Sampler {
    Uniform,
    Zipf(Zipf),
    ScrambledZipf(Zipf, Permutation),
    SelfSimilar(SelfSimilar),
    ScrambledSelfSimilar(SelfSimilar, Permutation),
    Hotspot(Hotspot),
    Latest(Latest),
}

impl Sampler {
    pub fn new(
        distribution: &Distribution,
        space: &KeySpace,
        seed: u64,
        epoch: &HotEpoch,
    ) -> Sampler {
        let records = space.records();
        let scattered = || Permutation::new(records, Rng::new(seed, rng::SCRAMBLE));
        match *distribution {
            Distribution::Uniform => Sampler::Uniform,
            Distribution::Zipfian { theta, scrambled } => {
                let zipf = Zipf::new(records, theta);
                if scrambled {
                    Sampler::ScrambledZipf(zipf, scattered())
                } else {
                    Sampler::Zipf(zipf)
                }
            }
            Distribution::SelfSimilar { h, scrambled } => {
                let law = SelfSimilar::new(records, h);
                if scrambled {
                    Sampler::ScrambledSelfSimilar(law, scattered())
                } else {
                    Sampler::SelfSimilar(law)
                }
            }
            Distribution::Hotspot { size, share } => {
                let region = HotRegion::new(records, size, seed);
                Sampler::Hotspot(Hotspot::new(region, share, epoch.clone()))
            }
            Distribution::Latest { theta } => Sampler::Latest(Latest::new(space, theta, seed)),
        }
    }

    #[inline]
    pub fn key(&mut self, rng: &mut Rng, space: &KeySpace, inserts: &Inserts) -> u64 {
        let id = match self {
            Sampler::Uniform => rng.below(space.records()),
            Sampler::Zipf(zipf) => zipf.rank(rng),
            Sampler::ScrambledZipf(zipf, order) => order.at(zipf.rank(rng)),
            Sampler::SelfSimilar(law) => law.rank(rng),
            Sampler::ScrambledSelfSimilar(law, order) => order.at(law.rank(rng)),
            Sampler::Hotspot(hotspot) => hotspot.id(rng),
            Sampler::Latest(latest) => return latest.key(rng, space, inserts),
        };
        space.key(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_their_defaults_and_written_in_full() {
        for (text, full) in [
            ("uniform", "uniform"),
            ("zipfian", "zipfian:0.99:scrambled"),
            ("zipfian:0", "zipfian:0:scrambled"),
            ("zipfian:1.2:unscrambled", "zipfian:1.2:unscrambled"),
            ("selfsimilar", "selfsimilar:0.2:unscrambled"),
            ("selfsimilar:0.001:scrambled", "selfsimilar:0.001:scrambled"),
            ("hotspot", "hotspot:0.05:0.9"),
            ("hotspot:0.1", "hotspot:0.1:0.9"),
            ("hotspot:1:0", "hotspot:1:0"),
            ("latest", "latest:0.99"),
            ("latest:0.5", "latest:0.5"),
        ] {
            let distribution = Distribution::parse(text).unwrap();
            assert_eq!(distribution.to_string(), full);
            assert_eq!(Distribution::parse(full).unwrap(), distribution);
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, said) in [
            (
                "",
                "unknown distribution ``; possible: uniform, zipfian[:THETA",
            ),
            (
                "gauss",
                "unknown distribution `gauss`; possible: uniform, zipfian[:THETA",
            ),
            (
                "zipfian:2",
                "distribution `zipfian:2`: THETA is `2`, possible is a number from 0 to less than 2",
            ),
            ("zipfian:NaN", "THETA is `NaN`"),
            ("zipfian:", "THETA is ``"),
            (
                "zipfian:0.99:mixed",
                "`mixed` is neither `scrambled` nor `unscrambled`",
            ),
            (
                "selfsimilar:0.6",
                "H is `0.6`, possible is a number above 0 and at most 0.5",
            ),
            ("hotspot:0", "SIZE is `0`"),
            (
                "hotspot:0.1:90",
                "SHARE is `90`, possible is a fraction from 0 to 1",
            ),
            ("hotspot:0.1:0.9:1", "`1` is too much"),
            ("uniform:3", "`3` is too much"),
        ] {
            let error = Distribution::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "`{text}`: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn scrambling_keeps_the_frequencies_and_moves_the_records() {
        let space = KeySpace::new(50).unwrap();
        let counts = |text: &str| {
            let distribution = Distribution::parse(text).unwrap();
            let mut sampler = Sampler::new(&distribution, &space, 4, &HotEpoch::default());
            let mut rng = Rng::new(4, 0);
            let inserts = Inserts {
                made: 0,
                thread: 0,
                threads: 1,
            };
            let mut counts = vec![0; 50];
            for _ in 0..10_000 {
                let key = sampler.key(&mut rng, &space, &inserts);
                counts[(0..50).find(|&id| space.key(id) == key).unwrap() as usize] += 1;
            }
            counts
        };
        for law in ["zipfian:0.99", "selfsimilar:0.2"] {
            let mut plain = counts(&format!("{law}:unscrambled"));
            let mut scrambled = counts(&format!("{law}:scrambled"));
            assert!(plain[0] > 1500, "the first record is the hottest");
            assert_ne!(plain, scrambled);
            plain.sort_unstable();
            scrambled.sort_unstable();
            assert_eq!(plain, scrambled);
        }
    }
}
