//! A client that writes to keys of its own until the server is gone, and then says whether what is
//! there can be.
//!
//! The server executes the commands of a connection one after the other, and its log keeps their
//! order. So after a kill, what is there has to be the work of the first so many commands, for one
//! number that all keys agree on: no fewer than those that had to survive, no more than were sent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use fastrand::Rng;

use crate::client::Client;
use crate::model::{Key, Model, Op};

/// Commands that are sent at once, at most.
const AT_ONCE: usize = 16;

pub struct Writer {
    id: usize,
    rng: Rng,
    /// The number of the next command.
    next: u64,
    /// What the keys had when the server was started.
    base: Model,
    /// The commands that were sent since, those that were cut off included.
    pub sent: Vec<Op>,
    /// How many of them were answered.
    pub acknowledged: Arc<AtomicUsize>,
}

impl Writer {
    pub fn new(id: usize, seed: u64) -> Writer {
        Writer {
            id,
            rng: Rng::with_seed(seed ^ (id as u64) << 32),
            next: 1_000_000,
            base: Model::new(),
            sent: Vec::new(),
            acknowledged: Arc::default(),
        }
    }

    /// Keys that it has at the beginning of a cycle.
    pub fn keys(&self) -> usize {
        self.base.len()
    }

    /// Writes until the server is gone, and compares its answers.
    pub fn write(&mut self, address: &str) {
        let Ok(mut client) = Client::new(address) else {
            return;
        };
        let mut model = self.base.clone();
        loop {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..self.rng.usize(1..=AT_ONCE) {
                let op = Op::draw(&mut self.rng, self.next);
                self.next += 1;
                bytes.extend(op.encode(self.id));
                expected.push(op.apply(&mut model));
                self.sent.push(op);
            }
            if client.send(&bytes).is_err() {
                return;
            }
            for expected in expected {
                let Ok(reply) = client.reply() else { return };
                let nth = self.acknowledged.load(SeqCst);
                if let Some(expected) = expected {
                    assert_eq!(reply, expected, "{:?}", self.sent[nth]);
                }
                self.acknowledged.store(nth + 1, SeqCst);
            }
        }
    }

    /// Looks at all keys, and begins anew with what they have. Returns after how many commands that
    /// may have been, of which at least `floor` have to be there.
    pub fn settle(
        &mut self,
        client: &mut Client,
        floor: usize,
    ) -> Result<RangeInclusive<usize>, String> {
        let there: BTreeMap<Key, _> = Key::all()
            .map(|key| (key, key.look(client, self.id)))
            .collect();
        let is_wrong = |model: &Model, key: &Key| model.get(key) != there[key].as_ref();
        let mut model = self.base.clone();
        for op in &self.sent[..floor] {
            op.apply(&mut model);
        }
        let mut wrong: BTreeSet<Key> = Key::all().filter(|key| is_wrong(&model, key)).collect();
        let mut least = (wrong.clone(), floor, model.clone());
        let mut fits: Option<(usize, usize)> = None;
        for cut in floor..=self.sent.len() {
            if wrong.len() < least.0.len() {
                least = (wrong.clone(), cut, model.clone());
            }
            if wrong.is_empty() {
                fits = Some((fits.map_or(cut, |it| it.0), cut));
            }
            if let Some(op) = self.sent.get(cut) {
                op.apply(&mut model);
                for key in op.keys() {
                    match is_wrong(&model, &key) {
                        true => wrong.insert(key),
                        false => wrong.remove(&key),
                    };
                }
            }
        }
        let (wrong, at, model) = least;
        let Some((first, last)) = fits else {
            return Err(self.complaint(floor, &wrong, at, |key| {
                let [had, has] = [model.get(key), there[key].as_ref()];
                [had, has].map(|it| it.map_or("nothing".into(), ToString::to_string))
            }));
        };
        self.base = model;
        self.sent.clear();
        self.acknowledged.store(0, SeqCst);
        Ok(first..=last)
    }

    /// What can't be.
    fn complaint(
        &self,
        floor: usize,
        wrong: &BTreeSet<Key>,
        at: usize,
        values: impl Fn(&Key) -> [String; 2],
    ) -> String {
        let mut lines = vec![format!(
            "writer {}: of {} commands {} were answered and {floor} have to be there; no number of \
             them explains what is there. After {at}, fewest keys are wrong:",
            self.id,
            self.sent.len(),
            self.acknowledged.load(SeqCst),
        )];
        for key in wrong {
            let [expected, there] = values(key);
            let name = key.name(self.id);
            lines.push(format!("{name} has {there}, not {expected}; it was told:"));
            let about = self.sent.iter().enumerate();
            let about = about.filter(|(_, op)| op.keys().contains(key));
            let about: Vec<_> = about.map(|(nth, op)| format!("  {nth}: {op:?}")).collect();
            lines.extend(about[about.len().saturating_sub(20)..].iter().cloned());
        }
        lines.join("\n")
    }
}
