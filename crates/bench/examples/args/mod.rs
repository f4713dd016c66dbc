//! The command line of examples that measure kinds of maps: `[records] [rounds] [map]...`.

/// The kinds of maps by name.
const MAPS: [&str; 3] = ["btree", "art", "masstree"];

pub struct Args {
    pub records: u64,
    pub rounds: u64,
    /// Known names: all, if none is given.
    pub maps: Vec<&'static str>,
}

impl Args {
    /// Those of this process, or these numbers; `None` if they are not understood.
    pub fn parse(records: u64, rounds: u64) -> Option<Args> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let number = |at: usize, default: u64| match args.get(at) {
            Some(text) => text.parse().ok().filter(|&number: &u64| number > 0),
            None => Some(default),
        };
        let known = |name: &String| MAPS.into_iter().find(|known| known == name);
        let named: Option<Vec<_>> = args.iter().skip(2).map(known).collect();
        Some(Args {
            records: number(0, records)?,
            rounds: number(1, rounds)?,
            maps: named.map(|it| if it.is_empty() { MAPS.into() } else { it })?,
        })
    }
}
