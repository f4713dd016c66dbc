//! The child process: owns one map and answers requests until its standard input ends.

use std::io::{BufRead, Write};
use std::time::Duration;

use crate::contender::{Contender, Setup, Turn};
use crate::contenders::row;
use crate::keys::{Lines, Words};
use crate::protocol::{Answer, Ask, KeyKind, Order};

/// Serves the contender that `order` (JSON) describes.
///
/// # Errors
/// The parent is gone, or its message cannot be parsed.
pub fn serve(order: &str) -> Result<(), String> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    let mut contender = make(&order);
    // Not locked throughout: threads of a peer may print.
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let ask: Ask = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let answer = match &mut contender {
            Ok(contender) => answer(&mut **contender, ask),
            Err(why) => Err(why.clone()),
        };
        let answer = answer.map_or_else(Answer::Wrong, Answer::Done);
        let text = serde_json::to_string(&answer).expect("plain figures and strings");
        writeln!(output, "{text}").map_err(|error| error.to_string())?;
        output.flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn answer(contender: &mut dyn Contender, ask: Ask) -> Result<Turn, String> {
    match ask {
        Ask::Check => contender.check().map(|()| Turn::default()),
        Ask::Load { count, rest } => contender.load(count, rest),
        Ask::Turn {
            case,
            warm_ms,
            length_ms,
        } => contender.turn(
            &case,
            Duration::from_millis(warm_ms),
            Duration::from_millis(length_ms),
        ),
    }
}

fn make(order: &Order) -> Result<Box<dyn Contender>, String> {
    let name = &order.index;
    let row = row(name).ok_or_else(|| format!("unknown index `{name}`"))?;
    let unsupported = || format!("{name} takes no {} keys", order.keys.name());
    let words = |keys| (row.words.as_ref().ok_or_else(unsupported)?.make)(setup(order, keys));
    match (order.keys, &order.file) {
        (KeyKind::Random, _) => words(Words::Random),
        (KeyKind::Dense, _) => words(Words::Dense),
        (KeyKind::Urls | KeyKind::Words, Some(file)) => {
            (row.lines.as_ref().ok_or_else(unsupported)?.make)(setup(order, Lines::read(file)?))
        }
        (KeyKind::Urls | KeyKind::Words, None) => Err("no file of keys".into()),
    }
}

fn setup<T>(order: &Order, keys: T) -> Setup<T> {
    Setup {
        keys,
        records: order.records,
        threads: order.threads,
        seed: order.seed,
        huge_pages: order.huge_pages,
    }
}
