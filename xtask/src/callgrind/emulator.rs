//! The emulator's own instructions, which must not depend on the placement that is measured.
//!
//! The example `instrument` of `crates/bench` makes the same scans of one map twice, with charging
//! on and with charging off. The difference is the emulator's own, because the instructions of the
//! scans and of the placement's tracking are in both. Divided by the lines that were charged, it
//! must be the same for every placement. Under each, the lines are the same and all in the modelled
//! cache, and before it nodes have moved beside reads, which leaves prefetches behind whose lines
//! are never read. One more row leaves such prefetches on purpose.

use std::path::Path;

use super::{build, callgrind};

const EXAMPLE: &str = "instrument";
/// The reference: it moves nothing and tracks nothing.
const BASE: &str = "interleave";
/// What a placement may differ by, as a ratio.
const BAR: f64 = 0.02;

/// The counts of one placement.
struct Row {
    name: String,
    lines: u64,
    /// Instructions of all scans with charging on, and with charging off.
    charged: u64,
    uncharged: u64,
}

impl Row {
    /// The emulator's instructions per line.
    fn per_line(&self) -> f64 {
        self.charged.saturating_sub(self.uncharged) as f64 / self.lines.max(1) as f64
    }
}

/// Counts all placements, prints the table, and fails if one differs from the base.
pub fn measure(root: &Path) -> Result<(), String> {
    let (binary, out) = build(root, EXAMPLE)?;
    let names = crate::exec::output(std::process::Command::new(&binary))?;
    let mut rows = vec![row(&binary, &out, &[BASE])?];
    rows.push(row(&binary, &out, &[BASE, "unvisited"])?);
    for name in names.lines().filter(|name| *name != BASE) {
        rows.push(row(&binary, &out, &[name])?);
    }
    print!("{}", table(&rows));
    within(BAR, &rows)
}

fn row(binary: &Path, folder: &Path, args: &[&str]) -> Result<Row, String> {
    let name = args.join(", ");
    let file = folder.join(format!("{EXAMPLE}-{}.out", args.join("-")));
    let (text, printed) = callgrind(binary, args, &file)?;
    let lines = printed.trim().parse();
    let lines = lines.map_err(|_| format!("{name}: printed `{}`, no count", printed.trim()))?;
    let inclusive = |function: &str| {
        inclusive_of(&text, function)
            .ok_or_else(|| format!("{}: no call of {function}", file.display()))
    };
    Ok(Row {
        lines,
        charged: inclusive("Instrument::scan_charged")?,
        uncharged: inclusive("Instrument::scan_uncharged")?,
        name,
    })
}

/// The inclusive cost of all calls of the function whose name ends like this, in a callgrind file.
///
/// A call is three lines: `cfn=(ID) NAME`, where the name is left out after its first mention,
/// `calls=COUNT POSITION`, and `POSITION COST`.
fn inclusive_of(text: &str, function: &str) -> Option<u64> {
    let mut id = None;
    let mut sum = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((kind, name)) = line.split_once("fn=") else {
            continue;
        };
        let (this, name) = name.split_once(' ').unwrap_or((name, ""));
        if name.ends_with(function) {
            id = Some(this);
        }
        if kind == "c" && id == Some(this) {
            let is_cost = |line: &&str| !line.starts_with("calls=") && !line.contains('=');
            let cost = lines.by_ref().find(is_cost)?.split_whitespace().nth(1)?;
            sum = Some(sum.unwrap_or(0) + cost.parse::<u64>().ok()?);
        }
    }
    sum
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<24} {:>8} {:>18} {:>14}\n",
        "placement", "lines", "emulator's / line", "ratio to first"
    );
    for row in rows {
        text += &format!(
            "{:<24} {:>8} {:>18.2} {:>14.4}\n",
            row.name,
            row.lines,
            row.per_line(),
            row.per_line() / rows[0].per_line()
        );
    }
    text
}

fn within(bar: f64, rows: &[Row]) -> Result<(), String> {
    for row in rows {
        let ratio = row.per_line() / rows[0].per_line();
        if !((1.0 - bar)..=(1.0 + bar)).contains(&ratio) {
            return Err(format!(
                "under {} the emulator takes {ratio:.4} times the instructions per line that it \
                 takes under {}: more than {bar} off",
                row.name, rows[0].name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
events: Ir

fn=(1) main
3 7
cfn=(2) a::Instrument::scan_charged
calls=1 9
4 500
cfi=(5) lib.rs
cfn=(3) a::Instrument::scan_uncharged
calls=1 9
4 100

fn=(2)
5 9

fn=(4) again
cfn=(2)
calls=2 9
4 30
";

    #[test]
    fn inclusive_costs_of_all_calls_add_up() {
        assert_eq!(inclusive_of(FILE, "Instrument::scan_charged"), Some(530));
        assert_eq!(inclusive_of(FILE, "Instrument::scan_uncharged"), Some(100));
        assert_eq!(inclusive_of(FILE, "nobody"), None);
    }

    #[test]
    fn a_placement_whose_lines_cost_more_is_named() {
        let row = |name: &str, charged| Row {
            name: name.into(),
            lines: 100,
            charged,
            uncharged: 1_000,
        };
        let rows = [row("interleave", 3_000), row("sidle", 3_030)];
        assert_eq!(within(BAR, &rows), Ok(()));
        assert!(table(&rows).contains("1.0150"));
        for off in [3_050, 2_950] {
            let why = within(BAR, &[row("interleave", 3_000), row("sidle", off)]).unwrap_err();
            assert!(why.contains("under sidle"), "{why}");
        }
    }
}
