//! Lists of operations on maps of words.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};

use crate::decode::{bound, some, turns};
use crate::suite::any_bits::AnyBits;
use crate::suite::ops::{Op, apply};
use crate::suite::{TestMap, check, placing, arenas};

/// More than a list of operations fills, yet little, since some placements scan all of it.
const SLOW: usize = arenas::AMPLE / 4;

/// Most keys are near others, so that they share nodes; some differ in only one byte, at any place.
fn key(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.arbitrary::<u8>()? {
        near @ 0..=159 => near.into(),
        160..=223 => u.arbitrary::<u16>()?.into(),
        last @ 224..=231 => u64::MAX - u64::from(last - 224),
        place @ 232..=247 => u64::from(u.arbitrary::<u8>()?) << (8 * (place % 8)),
        248.. => u.arbitrary()?,
    })
}

fn op(u: &mut Unstructured<'_>) -> Result<Op> {
    Ok(match u.arbitrary::<u8>()? {
        0..=89 => Op::Insert(key(u)?, u.arbitrary::<u8>()?.into()),
        90..=99 => Op::Update(key(u)?, u.arbitrary()?),
        100..=107 => Op::CompareAndSet(key(u)?, u.arbitrary()?, u.arbitrary::<u8>()?.into()),
        108..=149 => Op::Remove(key(u)?),
        150..=155 => Op::Get(key(u)?),
        156..=161 => Op::GetMany(some(u, 20, key)?),
        162..=171 => Op::Range((bound(u, key)?, bound(u, key)?), turns(u)?),
        172..=177 => Op::Scan(key(u)?, u.int_in_range(0..=40)?),
        178..=185 => Op::BulkLoad(key(u)?, u.int_in_range(0..=30)?, u.int_in_range(1..=5)?),
        186..=189 => Op::RemoveRun(key(u)?, u.int_in_range(0..=99)?),
        190..=191 => Op::PopFirst,
        192..=193 => Op::PopLast,
        194 => Op::Clear,
        195..=219 => Op::Promote(key(u)?),
        220..=239 => Op::Demote(key(u)?, u.int_in_range(0..=4)?),
        240..=245 => Op::DemoteSubtree(key(u)?, u.int_in_range(0..=4)?),
        246..=251 => Op::Ask(key(u)?, u.arbitrary()?, u.arbitrary::<u16>()?.into()),
        252.. => Op::Reclaim,
    })
}

/// Runs a list on a map that hardly fits into fast memory, and checks everything once it is idle.
pub fn play<T: TestMap>(u: &mut Unstructured<'_>) -> Result<()> {
    let placing = *u.choose(placing::ALL)?;
    let (map, placing) = placing::map::<AnyBits<T>>(placing, 1, 2 * arenas::CHUNK, SLOW);
    let mut model = BTreeMap::new();
    while let Ok(op) = op(u) {
        apply(&map, &mut model, &op);
        if u.is_empty() {
            break;
        }
    }
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
    check::comes_back(&map);
    Ok(())
}
