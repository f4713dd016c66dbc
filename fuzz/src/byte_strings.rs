//! Lists of operations on maps of byte strings.

use arbitrary::{Result, Unstructured};

use crate::bytes::{ByteMap, Model, Op, apply, ends_well};
use crate::decode::{bound, some, turns};
use crate::suite::{placing, arenas};

/// Common prefixes of keys: none; longer than an inner node of the radix tree stores; whole slices
/// of a Masstree (seven bytes), one byte less and one more; zeros, which end no string.
const BEGINNINGS: [&[u8]; 8] = [
    b"",
    b"",
    b"a rather long beginning in common/",
    b"sevenof",
    b"sixof.",
    b"eight of",
    &[0; 14],
    &[255; 7],
];
const LETTERS: [u8; 4] = [0, 1, b'a', 255];

/// Few letters, so that one key is often a prefix of another.
fn key(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let shape = u.arbitrary::<u8>()?;
    let mut key = BEGINNINGS[usize::from(shape % 8)].to_vec();
    if shape & 8 != 0 {
        let short = u.int_in_range(0..=key.len())?;
        key.truncate(short);
    }
    if shape >> 4 == 15 {
        key.extend(some(u, 40, |u| u.arbitrary::<u8>())?);
    } else {
        // Two bits a letter.
        let (bits, count) = (u.arbitrary::<u16>()?, usize::from(shape >> 4) % 9);
        key.extend((0..count).map(|at| LETTERS[usize::from(bits >> (2 * at) & 3)]));
    }
    Ok(key)
}

fn op(u: &mut Unstructured<'_>) -> Result<Op> {
    Ok(match u.arbitrary::<u8>()? {
        0..=89 => Op::Insert(key(u)?, u.arbitrary::<u8>()?.into()),
        90..=99 => Op::Update(key(u)?, u.arbitrary()?),
        100..=109 => Op::Upsert(key(u)?),
        110..=147 => Op::Remove(key(u)?),
        148..=149 => {
            let value = u.arbitrary::<u8>()?.into();
            let keys = some(u, 20, key)?.into_iter();
            Op::BulkLoad(keys.map(|key| (key, value)).collect())
        }
        150..=155 => Op::Get(key(u)?),
        156..=161 => Op::GetMany(some(u, 20, key)?),
        162..=171 => Op::Range((bound(u, key)?, bound(u, key)?), turns(u)?),
        172..=177 => Op::Scan(key(u)?, u.int_in_range(0..=40)?),
        178..=183 => Op::Prefix(key(u)?),
        184..=189 => Op::Seek(u.int_in_range(0..=15)?, key(u)?),
        190..=191 => Op::PopFirst,
        192..=193 => Op::PopLast,
        194 => Op::Clear,
        195..=219 => Op::Promote(key(u)?),
        220..=239 => Op::Demote(key(u)?, u.int_in_range(0..=9)?),
        240..=245 => Op::DemoteSubtree(key(u)?, u.int_in_range(0..=9)?),
        246..=251 => Op::Ask(key(u)?, u.arbitrary()?, u.arbitrary::<u16>()?.into()),
        252.. => Op::Reclaim,
    })
}

/// Runs a list on a map that hardly fits into fast memory, and checks everything once it is idle.
pub fn play<T: ByteMap>(u: &mut Unstructured<'_>) -> Result<()> {
    let placing = match u.arbitrary()? {
        true => placing::shuffle(1),
        false => placing::fast_first(1),
    };
    // Nodes of many sizes do not share chunks.
    let fast = u.int_in_range(0..=24)? * arenas::CHUNK;
    let arenas = arenas::two(fast, arenas::AMPLE / 4);
    let map = T::make(arenas, placing.placement.clone()).expect("an empty map");
    let mut model = Model::new();
    while let Ok(op) = op(u) {
        apply(&map, &mut model, &op);
        if u.is_empty() {
            break;
        }
    }
    ends_well(&map, &model, &placing);
    Ok(())
}
