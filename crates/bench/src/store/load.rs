//! Which requests are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use timberline_store::Store;

use super::popularity::{Draw, Popularity};
use super::record::{Sizes, lost};
use crate::workload::Rng;

/// Which requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// How often each record is wanted.
    pub popularity: Popularity,
    /// The part of them that overwrites a record; the others read one.
    pub writes: f64,
}

impl Load {
    /// Reads of any record.
    pub const UNIFORM: Load = Load::reads(Popularity::Uniform);

    /// Reads alone.
    pub const fn reads(popularity: Popularity) -> Load {
        Load {
            popularity,
            writes: 0.0,
        }
    }
}

/// A store, and what its records are like.
#[derive(Clone)]
pub struct Target {
    pub store: Store,
    pub sizes: Sizes,
    /// Of a store that drops records when it is full: gets that found nothing. Clones count
    /// together.
    missed: Option<Arc<AtomicU64>>,
}

impl Target {
    /// A store with records of these sizes; a cache drops some.
    pub fn new(store: &Store, sizes: Sizes, is_cache: bool) -> Target {
        Target {
            store: store.clone(),
            sizes,
            missed: is_cache.then(Arc::default),
        }
    }

    /// Gets a record, and puts it if the store has dropped it, as whoever uses a cache does.
    pub async fn get(self, id: u64) -> Result<(), String> {
        match self.find(id).await? {
            true => Ok(()),
            false => self.put(id).await,
        }
    }

    /// Gets a record. Whether it is there: only a cache may have dropped it.
    pub async fn find(&self, id: u64) -> Result<bool, String> {
        let is_there = self.sizes.get(&self.store, id).await?;
        if !is_there {
            let missed = self.missed.as_ref().ok_or_else(|| lost(id))?;
            missed.fetch_add(1, Relaxed);
        }
        Ok(is_there)
    }

    /// Puts a record.
    pub async fn put(self, id: u64) -> Result<(), String> {
        self.sizes.put(&self.store, id).await
    }

    /// Gets that found nothing since this was asked before.
    pub fn take_missed(&self) -> u64 {
        self.missed.as_ref().map_or(0, |it| it.swap(0, Relaxed))
    }
}

/// Requests to a store.
#[derive(Clone)]
pub struct Requests {
    pub to: Target,
    pub draw: Draw,
    /// The part of them that overwrites a record.
    pub writes: f64,
}

impl Requests {
    /// The next one, of whichever record is drawn.
    pub fn next(&self, rng: &mut Rng) -> impl Future<Output = Result<(), String>> + use<> {
        let id = (self.draw)(rng);
        let is_put = self.writes > 0.0 && rng.unit() < self.writes;
        let to = self.to.clone();
        async move {
            match is_put {
                true => to.put(id).await,
                false => to.get(id).await,
            }
        }
    }
}
