//! Counters by URL, raised by several threads at once.
//!
//! `upsert_with` reads and writes as one step, so no count is lost. The sites of a host lie side by
//! side, and a prefix sums them up.

use std::thread;

use timberline::{Error, Masstree};

const HOSTS: [&str; 3] = [
    "https://example.org",
    "https://example.com",
    "https://a.test",
];

/// Makes `visits` visits, each of a page that the thread's number draws.
fn visit(counters: &Masstree<str, u64>, thread: u64, visits: u64) -> Result<(), Error> {
    for visit in 0..visits {
        let draw = (thread * visits + visit).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let url = format!("{}/page/{}", HOSTS[(draw % 3) as usize], draw % 100);
        counters.upsert_with(&url, |count| count.unwrap_or(0) + 1)?;
    }
    Ok(())
}

/// Counts `visits` visits by each of `threads` threads.
pub fn count(threads: u64, visits: u64) -> Result<Masstree<str, u64>, Error> {
    let counters = Masstree::new();
    thread::scope(|scope| {
        let start = |thread| {
            let counters = &counters;
            scope.spawn(move || visit(counters, thread, visits))
        };
        let mut visitors: Vec<_> = (0..threads).map(start).collect();
        let mut outcomes = visitors.drain(..).map(|it| it.join().expect("no panic"));
        outcomes.try_for_each(|outcome| outcome)
    })?;
    Ok(counters)
}

/// The visits of all URLs with this prefix.
pub fn sum(counters: &Masstree<str, u64>, prefix: &str) -> u64 {
    counters.prefix(prefix).map(|(_, count)| count).sum()
}

/// Prints the visits of each host, and its most visited page.
pub fn main() -> Result<(), Error> {
    let counters = count(4, 25_000)?;
    for host in HOSTS {
        let visits = sum(&counters, host);
        let most = counters.prefix(host).max_by_key(|(_, count)| *count);
        println!("{host}: {visits} visits, most of {most:?}");
    }
    println!("{} URLs, {} visits", counters.len(), sum(&counters, ""));
    Ok(())
}
