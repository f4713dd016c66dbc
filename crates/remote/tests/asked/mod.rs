//! What tasks ask a tree for whose histories are judged.

use timberline_remote::{RemoteTree, Result};

use crate::linear::Op;

/// One of those that change nothing or a key; with this value if they need one.
pub fn draw(draws: &mut fastrand::Rng, value: u64) -> Op {
    match draws.u8(0..8) {
        0..3 => Op::Get,
        3 | 4 => Op::Insert(value),
        5 | 6 => Op::Update(value),
        _ => Op::Remove,
    }
}

/// Asks for what [`draw`] returned. The key's value before.
pub async fn ask(tree: &RemoteTree, key: u64, op: Op) -> Result<Option<u64>> {
    match op {
        Op::Get => tree.get(key).await,
        Op::Insert(value) => tree.insert(key, value).await,
        Op::Update(value) => tree.update(key, value).await,
        _ => tree.remove(key).await,
    }
}
