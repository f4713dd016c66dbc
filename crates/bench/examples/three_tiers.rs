//! Three emulated tiers (DRAM, CXL, remote), Zipf and a hot set that moves: `three_tiers <records>
//! <requests> [<map> [<placements> [<seed>]]]`. Prints a Markdown table of missing lines by tier
//! and of what the emulator charged in the second half of the requests.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So no
//! duration matters. Counts repeat to the digit, but for `timberline-leaves` on ART.

use std::process::ExitCode;

use timberline_bench::workload::{KeySpace, Op, Request, Rng, Zipf};

mod tiers;

use tiers::{Kind, Requests, Setting, Size};

/// The second tier is CXL memory with 20 % of the tree's bytes, the third remote memory of a
/// microsecond.
fn setting(kinds: Vec<Kind>) -> Setting {
    Setting {
        profile: "cxl+us1",
        percents: &[10, 20],
        works_while_loading: false,
        kinds,
        charges: true,
    }
}
/// Zipf's exponent.
const THETA: f64 = 0.99;
/// The hot set is at so many places in a run, in the workload where it moves.
const MOVES: u64 = 4;

/// The requests of a run: ranks of a Zipf distribution, spread over the keys.
struct Asked {
    size: Size,
    zipf: Zipf,
    /// Each epoch's hot keys are others.
    moves_every: Option<u64>,
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
        let mut random = Rng::new(*seed, 0);
        for nth in 0..*count {
            let epoch = self.moves_every.map_or(0, |every| nth / every);
            let rank = self.zipf.rank(&mut random) + epoch * records / 3;
            let key = space.key(rank % records);
            visit(nth, Request { op: Op::Read, key });
        }
    }
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| given.get(at)?.parse().ok().filter(|&it: &u64| it >= 1000);
    let maps = tiers::maps(given.get(2).map(String::as_str));
    let kinds = tiers::kinds(given.get(3).map(String::as_str));
    let seed = given.get(4).map_or(Ok(1), |seed| seed.parse());
    let (Some(records), Some(count), Some(maps), Some(kinds), Ok(seed)) =
        (number(0), number(1), maps, kinds, seed)
    else {
        let names = Kind::ALL.map(Kind::name).join(", ");
        eprintln!(
            "usage: three_tiers <records> <requests> [<map> [<placements> [<seed>]]], records and requests \
             at least 1000, the map B+tree, ART or Masstree, placements of {names}"
        );
        return ExitCode::from(2);
    };
    let setting = setting(kinds);
    tiers::print_head();
    for map in maps {
        for (name, moves) in [("stays", false), ("moves", true)] {
            let requests = Asked {
                size: Size {
                    records,
                    space: KeySpace::new(records).expect("a size within the range"),
                    count,
                    seed,
                },
                zipf: Zipf::new(records, THETA),
                moves_every: moves.then_some(count / MOVES),
            };
            tiers::compare(map, name, &setting, &requests);
        }
    }
    ExitCode::SUCCESS
}
