//! Which commands had to survive a kill, where an answer alone does not promise it.
//!
//! INFO says how many records were appended to the log, and how many of them are on the disk. What
//! was answered before an INFO was asked for is among those that it finds appended; once another
//! one finds as many on the disk, all of that has to survive. No clock is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::client::{Client, Reply};

/// What INFO said last.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    pub appended: u64,
    pub durable: u64,
    pub cleaned: u64,
    pub moved: u64,
    pub checkpoints: u64,
}

impl Figures {
    /// `None` if the server is gone.
    pub fn ask(client: &mut Client) -> Option<Figures> {
        let reply = client.ask(&["INFO", "persistence"]).ok()?;
        let Reply::Bulk(Some(text)) = reply else {
            panic!("INFO: {reply:?}");
        };
        let text = String::from_utf8(text).expect("it is text");
        let figure = |name: &str| {
            let line = text.lines().find_map(|it| it.strip_prefix(name));
            let figure = line.and_then(|it| it.strip_prefix(':'));
            let figure = figure.unwrap_or_else(|| panic!("no {name} in {text}"));
            figure.parse().expect("it is a number")
        };
        Some(Figures {
            appended: figure("records_appended"),
            durable: figure("records_durable"),
            cleaned: figure("segments_cleaned"),
            moved: figure("records_moved"),
            checkpoints: figure("checkpoints"),
        })
    }
}

/// Asks until the server is gone. Returns how many commands of each writer have to survive, and
/// what was said last.
pub fn watch(address: &str, acknowledged: &[Arc<AtomicUsize>]) -> (Vec<usize>, Figures) {
    let mut sure = vec![0; acknowledged.len()];
    let mut last = Figures::default();
    // Commands that were answered, and records that were appended then.
    let mut coming: Vec<(Vec<usize>, u64)> = Vec::new();
    let Ok(mut client) = Client::new(address) else {
        return (sure, last);
    };
    loop {
        let answered = acknowledged.iter().map(|it| it.load(SeqCst)).collect();
        let Some(figures) = Figures::ask(&mut client) else {
            return (sure, last);
        };
        last = figures;
        coming.push((answered, figures.appended));
        let known = coming.partition_point(|it| it.1 <= figures.durable);
        if let Some((answered, _)) = coming.drain(..known).next_back() {
            sure = answered;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
