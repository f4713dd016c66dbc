//! What is asked of a map, and what the standard library's map answers.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use timberline_tier::{OutOfMemory, TierId};
use timberline_tree::Error;

use crate::map::{Key, Map, Record};
use crate::suite::draw::Draw;
use crate::suite::names;

pub type Model = BTreeMap<Key, u64>;

/// Keys that maps are filled with: enough for some levels of the smallest nodes.
pub const KEYS: u64 = 160;

#[derive(Clone, Debug)]
pub enum Op {
    Insert(Key, u64),
    Update(Key, u64),
    Modify(Key, u64),
    Upsert(Key, u64),
    /// Expects this, which may be there, or not.
    CompareAndSet(Key, u64, u64),
    BulkLoad(Vec<Record>),
    Remove(Key),
    PopFirst,
    PopLast,
    Clear,
    Look(Vec<Key>),
    Promote(Key),
    /// Away from where little lies.
    Renew(Key),
    /// So many steps above a leaf.
    Demote(Key, u8),
    DemoteSubtree(Key, u8),
}

#[derive(PartialEq, Debug)]
pub enum Answer {
    Nothing,
    /// The value before, or after.
    Value(Option<u64>),
    Set(Result<(), Option<u64>>),
    Record(Option<Record>),
    Loaded(usize),
    Seen {
        values: Vec<Option<u64>>,
        records: Vec<Record>,
        ends: [Option<Record>; 2],
    },
}

/// Memory ended before an operation was done; of a list of records, this many were.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    pub full: OutOfMemory,
    pub done: usize,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfMemory(full) => Refused { full, done: 0 },
            other => panic!("{other}"),
        }
    }
}

/// What [`Op::Modify`] makes of a value.
fn modified(now: u64, value: u64) -> Option<u64> {
    (now & 3 > 0).then_some(now ^ value)
}

/// What [`Op::Upsert`] makes of one.
fn upserted(now: Option<u64>, value: u64) -> u64 {
    now.map_or(value, |now| now ^ value)
}

impl Op {
    /// One at random. Most add something.
    pub fn draw<T: Map>(draw: &mut Draw, model: &Model) -> Op {
        let key = T::key(draw.below(KEYS));
        let value = draw.below(1 << 20);
        match draw.below(40) {
            0..14 => Op::Insert(key, value),
            14..16 => Op::Update(key, value),
            16..18 => Op::Modify(key, value),
            18..21 => Op::Upsert(key, value),
            21..23 => {
                let expected = model.get(&key).copied().unwrap_or(value);
                Op::CompareAndSet(key, expected, value)
            }
            23 => {
                let keys = (0..12).map(|_| T::key(draw.below(KEYS)));
                let records: Model = keys.map(|key| (key, value)).collect();
                Op::BulkLoad(records.into_iter().collect())
            }
            24..29 => Op::Remove(key),
            29 => Op::PopFirst,
            30 => Op::PopLast,
            31 if draw.once_in(6) => Op::Clear,
            31..33 => Op::Look((0..9).map(|_| T::key(draw.below(2 * KEYS))).collect()),
            33..36 => Op::Promote(key),
            36 => Op::Renew(key),
            37..39 => Op::Demote(key, draw.below(4) as u8),
            _ => Op::DemoteSubtree(key, draw.below(4) as u8),
        }
    }

    /// Asks it of a map.
    pub fn ask(&self, map: &impl Map) -> Result<Answer, Refused> {
        Ok(match self {
            Op::Insert(key, value) => Answer::Value(map.insert(key, *value)?),
            Op::Update(key, value) => Answer::Value(map.update(key, *value)?),
            Op::Modify(key, value) => Answer::Value(map.modify(key, |now| modified(now, *value))?),
            Op::Upsert(key, value) => {
                let after = map.upsert_with(key, |now| upserted(now, *value))?;
                Answer::Value(Some(after))
            }
            Op::CompareAndSet(key, expected, new) => {
                Answer::Set(map.compare_and_set(key, *expected, *new)?)
            }
            Op::BulkLoad(records) => match map.bulk_load(records) {
                Ok(loaded) => Answer::Loaded(loaded),
                Err(Error::Record { position, error }) => {
                    let refused = Refused::from(*error);
                    return Err(Refused {
                        done: position,
                        ..refused
                    });
                }
                Err(other) => panic!("{other}"),
            },
            Op::Remove(key) => Answer::Value(map.remove(key)),
            Op::PopFirst => Answer::Record(map.pop_first()),
            Op::PopLast => Answer::Record(map.pop_last()),
            Op::Clear => {
                map.clear();
                Answer::Nothing
            }
            Op::Look(keys) => look(map, keys),
            Op::Promote(key) => {
                map.placed().promote_node(&leaf_of(map, key));
                Answer::Nothing
            }
            Op::Renew(key) => {
                let placed = map.placed();
                let candidates = placed.compaction_candidates(TierId::FAST);
                let parent = placed.parent_of(&leaf_of(map, key));
                let (tier, mut inner) = (candidates.tier(), Vec::new());
                placed.relocate_below(parent.as_ref(), tier, &candidates, &mut inner);
                Answer::Nothing
            }
            Op::Demote(key, steps) => {
                let placed = map.placed();
                placed.demote(&names::above(&*placed, leaf_of(map, key), *steps));
                Answer::Nothing
            }
            Op::DemoteSubtree(key, steps) => {
                let placed = map.placed();
                placed.demote_subtree(&names::above(&*placed, leaf_of(map, key), *steps));
                Answer::Nothing
            }
        })
    }

    /// What the model answers.
    pub fn tell(&self, model: &mut Model) -> Answer {
        let record = |(key, value): (&Key, &u64)| (key.clone(), *value);
        match self {
            Op::Insert(key, value) => Answer::Value(model.insert(key.clone(), *value)),
            Op::Update(key, value) => {
                let now = model.get_mut(key);
                Answer::Value(now.map(|now| std::mem::replace(now, *value)))
            }
            Op::Modify(key, value) => {
                let before = model.get(key).copied();
                let after = before.and_then(|now| modified(now, *value));
                model.extend(after.map(|after| (key.clone(), after)));
                Answer::Value(before)
            }
            Op::Upsert(key, value) => {
                let after = upserted(model.get(key).copied(), *value);
                model.insert(key.clone(), after);
                Answer::Value(Some(after))
            }
            Op::CompareAndSet(key, expected, new) => Answer::Set(match model.get_mut(key) {
                Some(now) if now == expected => {
                    *now = *new;
                    Ok(())
                }
                other => Err(other.copied()),
            }),
            Op::BulkLoad(records) => {
                model.extend(records.iter().cloned());
                Answer::Loaded(records.len())
            }
            Op::Remove(key) => Answer::Value(model.remove(key)),
            Op::PopFirst => Answer::Record(model.pop_first()),
            Op::PopLast => Answer::Record(model.pop_last()),
            Op::Clear => {
                model.clear();
                Answer::Nothing
            }
            Op::Look(keys) => {
                let [low, high] = span(keys);
                Answer::Seen {
                    values: keys.iter().map(|key| model.get(key).copied()).collect(),
                    records: model.range(low..high).map(record).collect(),
                    ends: [model.first_key_value(), model.last_key_value()]
                        .map(|end| end.map(record)),
                }
            }
            Op::Promote(_) | Op::Renew(_) | Op::Demote(..) | Op::DemoteSubtree(..) => {
                Answer::Nothing
            }
        }
    }

    /// What was done of it before memory ended is done, and the rest is left to do.
    pub fn take_done(&mut self, refused: Refused, model: &mut Model) {
        if let Op::BulkLoad(records) = self {
            model.extend(records.drain(..refused.done));
        }
    }

    /// The contents that a map may have once this has begun: one for each record that it changes.
    pub fn stages(&self, model: &Model) -> Vec<Model> {
        let mut stages = vec![model.clone()];
        match self {
            Op::BulkLoad(records) => {
                let mut stage = model.clone();
                for (key, value) in records {
                    stage.insert(key.clone(), *value);
                    stages.push(stage.clone());
                }
            }
            Op::Clear => {
                let mut stage = model.clone();
                while stage.pop_first().is_some() {
                    stages.push(stage.clone());
                }
            }
            _ => {
                let mut after = model.clone();
                self.tell(&mut after);
                stages.push(after);
            }
        }
        stages
    }

    /// Whether it only looks: then it takes no memory.
    pub fn looks(&self) -> bool {
        matches!(self, Op::Look(_))
    }
}

fn leaf_of<T: Map>(_: &T, key: &[u8]) -> timberline_placement::NodeKey {
    T::leaf_of(key)
}

/// The least and the greatest key.
fn span(keys: &[Key]) -> [Key; 2] {
    let [low, high] = [keys.iter().min(), keys.iter().max()];
    [low, high].map(|end| end.expect("a key").clone())
}

/// What every way to read finds and shows.
fn look(map: &impl Map, keys: &[Key]) -> Answer {
    let ([low, high], mut values) = (span(keys), map.look_up(keys));
    let mut records = map.walk(&low, &high);
    assert!(
        values.windows(2).all(|ways| ways[0] == ways[1]),
        "{values:?}"
    );
    assert!(
        records.windows(2).all(|ways| ways[0] == ways[1]),
        "{records:?}"
    );
    Answer::Seen {
        values: values.remove(0),
        records: records.remove(0),
        ends: map.ends(),
    }
}

/// Asks a map for all keys in all ways.
pub fn look_at_all<T: Map>(map: &T, model: &mut Model) {
    let all = Op::Look((0..KEYS).map(T::key).collect());
    assert_eq!(all.ask(map).expect("no memory is needed"), all.tell(model));
}

/// Asks both, with memory for everything.
pub fn ask_both(op: &Op, map: &impl Map, model: &mut Model) {
    let answer = op.ask(map).expect("memory for everything");
    assert_eq!(answer, op.tell(model), "{op:?}");
}

/// The map's content is the model's, and no tier has, or ever had, more than its limit.
pub fn same(map: &impl Map, model: &Model) {
    let all = map.all();
    let shown = all.iter().map(|(key, value)| (key, value));
    assert!(shown.eq(model), "{all:?}\n{model:?}");
    assert_eq!(map.len(), model.len());
    within_budget(map);
}

/// No tier has, or ever had, more than its limit.
fn within_budget(map: &impl Map) {
    let arenas = map.arenas();
    for tier in (0..arenas.tiers()).map(|tier| TierId(tier as u8)) {
        let budget = arenas.budget(tier);
        assert!(budget.peak() <= budget.limit(), "{budget:?}");
        assert!(arenas.used(tier) <= budget.used(), "{tier:?} {budget:?}");
    }
}

/// Rounds in which other threads may hold back what is free; fewer where a check is to fail.
const PATIENCE: usize = match cfg!(feature = "seeded-bugs") {
    true => 2_000,
    false => 20_000,
};

/// After reclamation, what is used is what the map consists of.
pub fn nothing_leaked(map: &impl Map) {
    let arenas = map.arenas();
    let used = |tier: usize| arenas.used(TierId(tier as u8));
    let leaked = || {
        map.placed().reclaim();
        let used: usize = (0..arenas.tiers()).map(used).sum();
        used as isize - map.stats().bytes_in_nodes as isize
    };
    for _ in 0..PATIENCE {
        if leaked() == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} bytes leaked", leaked());
}

/// The map can be used in every way, nothing leaked, and all memory comes back when it is empty.
pub fn ends_well<T: Map>(map: &T, model: &mut Model, draw: &mut Draw) {
    look_at_all(map, model);
    same(map, model);
    nothing_leaked(map);
    for _ in 0..60 {
        ask_both(&Op::draw::<T>(draw, model), map, model);
    }
    same(map, model);
    nothing_leaked(map);
    map.clear();
    model.clear();
    same(map, model);
    nothing_leaked(map);
}
