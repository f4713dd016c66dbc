//! `timberline-leaves` beside `oracle` in two emulated tiers: `leaves_and_oracle <records>
//! <requests> [<workload>,... [<map> [<placement>,... [<seed> [uncharged]]]]]`. Prints a Markdown
//! table of missing lines, of what the emulator charged in the second half of the requests, and of
//! the nodes moved meanwhile.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So no
//! duration matters. Workloads are those of `timberline bench`; in one whose name ends in `+moves`
//! the hot set moves, and in `hs-c+few` 3 % of the requests are by Zipf's law. Placements are
//! `interleave`, `oracle`, `timberline-leaves`, and `timberline` (with copies of hot records, which
//! is left out unless it is named); `all-fast` always runs. `uncharged` is for programs that count
//! instructions: then the emulator takes few.

use std::process::ExitCode;

use timberline_bench::workload::{KeySpace, Op, Permutation, Request, Rng, Stream, Workload, Zipf};

mod tiers;

use tiers::{Kind, Requests, Setting, Size};

/// The slow tier is CXL memory; a fifth of the tree's bytes are fast.
fn setting(kinds: Vec<Kind>, charges: bool) -> Setting {
    Setting {
        profile: "cxl",
        percents: &[20],
        works_while_loading: true,
        kinds,
        charges,
    }
}
/// The hot set is at so many places in a run, in a workload whose name ends in `+moves`.
const MOVES: u64 = 4;
/// One request in so many is by Zipf's law, in `hs-c+few`.
const FEW: u64 = 33;

/// The records and the requests of a run.
struct Asked {
    size: Size,
    law: Law,
    /// Requests from one move of the hot set to the next.
    moves_every: u64,
}

/// Which records are asked for.
enum Law {
    /// As the workload has it; a hot region moves by its epochs.
    Workload(Workload),
    /// Zipf's law; the record of rank r is the r-th in this order.
    Zipf(Zipf, Permutation),
    /// The first, but for one request in so many, which is by Zipf's law.
    Few(Workload, u64, Zipf, Permutation),
}

/// The requests of a run, in order.
enum Drawn<'a> {
    Workload(Box<Stream>),
    Zipf(&'a Zipf, &'a Permutation, Rng),
    Few(Box<Stream>, u64, &'a Zipf, &'a Permutation, Rng),
}

impl Asked {
    /// Those of a workload by name; `None` if there is none of this name.
    fn parse(name: &str, records: u64, count: u64, seed: u64) -> Option<Asked> {
        let moving = name.strip_suffix("+moves");
        let zipf = || {
            let order = Permutation::new(records, Rng::new(seed, 11));
            (Zipf::new(records, 0.99), order)
        };
        let law = match moving.unwrap_or(name) {
            "ycsb-c" => {
                let (zipf, order) = zipf();
                Law::Zipf(zipf, order)
            }
            "hs-c+few" => {
                let (zipf, order) = zipf();
                Law::Few(Workload::parse("hs-c").ok()?, FEW, zipf, order)
            }
            other => Law::Workload(Workload::parse(other).ok()?),
        };
        Some(Asked {
            size: Size {
                records,
                space: KeySpace::new(records).ok()?,
                count,
                seed,
            },
            law,
            moves_every: if moving.is_some() {
                count / MOVES
            } else {
                count
            },
        })
    }
}

impl Requests for Asked {
    fn size(&self) -> &Size {
        &self.size
    }

    fn each(&self, visit: &mut dyn FnMut(u64, Request)) {
        let Size {
            records,
            space,
            count,
            seed,
        } = &self.size;
        let mut drawn = match &self.law {
            Law::Workload(workload) => {
                workload.hot_epoch().set(0);
                let stream = workload.stream(space, *seed, 0, 1);
                Drawn::Workload(Box::new(stream))
            }
            Law::Zipf(zipf, order) => Drawn::Zipf(zipf, order, Rng::new(*seed, 0)),
            Law::Few(workload, every, zipf, order) => {
                let stream = Box::new(workload.stream(space, *seed, 0, 1));
                Drawn::Few(stream, *every, zipf, order, Rng::new(*seed, 0))
            }
        };
        for nth in 0..*count {
            let epoch = nth / self.moves_every;
            let request = match &mut drawn {
                Drawn::Workload(stream) => {
                    if let Law::Workload(workload) = &self.law {
                        workload.hot_epoch().set(epoch);
                    }
                    stream.next()
                }
                Drawn::Zipf(zipf, order, random) => {
                    let rank = zipf.rank(random) + epoch * records / 3;
                    let key = space.key(order.at(rank % records));
                    Request { op: Op::Read, key }
                }
                Drawn::Few(stream, every, zipf, order, random) => match random.below(*every) {
                    0 => {
                        let key = space.key(order.at(zipf.rank(random)));
                        Request { op: Op::Read, key }
                    }
                    _ => stream.next(),
                },
            };
            visit(nth, request);
        }
    }
}

const WORKLOADS: [&str; 5] = ["ycsb-c", "hs-c", "ycsb-d", "ycsb-c+moves", "hs-c+moves"];

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| given.get(at)?.parse().ok().filter(|&it: &u64| it >= 1000);
    let (Some(records), Some(count)) = (number(0), number(1)) else {
        eprintln!(
            "usage: leaves_and_oracle <records> <requests> [<workload>,... [<map> \
             [<placement>,... [<seed> [uncharged]]]]]"
        );
        return ExitCode::from(2);
    };
    let workloads = match given.get(2) {
        Some(one) => one.split(',').collect(),
        None => WORKLOADS.to_vec(),
    };
    let only = given.get(3).map(String::as_str);
    let Some(maps) = tiers::maps(only) else {
        eprintln!("the map is not B+tree, ART or Masstree");
        return ExitCode::from(2);
    };
    let Some(kinds) = tiers::kinds(given.get(4).map(String::as_str)) else {
        let names = Kind::ALL.map(Kind::name).join(", ");
        eprintln!("a placement is not one of {names}");
        return ExitCode::from(2);
    };
    let Ok(seed) = given.get(5).map_or(Ok(1), |seed| seed.parse()) else {
        eprintln!("the seed is no number");
        return ExitCode::from(2);
    };
    let setting = setting(kinds, given.get(6).is_none_or(|it| it != "uncharged"));
    tiers::print_head();
    for map in maps {
        for workload in &workloads {
            let Some(requests) = Asked::parse(workload, records, count, seed) else {
                eprintln!("unknown workload `{workload}`");
                return ExitCode::from(2);
            };
            tiers::compare(map, workload, &setting, &requests);
        }
    }
    ExitCode::SUCCESS
}
