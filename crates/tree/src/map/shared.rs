//! A tree as its handles and iterators share it: with the workers that move its nodes.

use std::ops::Deref;
use std::sync::Arc;

use timberline_placement::workers::Workers;

/// A share of a tree and of its workers. The workers refer to the tree, and nothing refers back:
/// they stop when the last share is dropped, whether that is a handle's or an iterator's.
pub struct Shared<T> {
    // Before the tree: the workers stop while it is there.
    workers: Option<Arc<Workers>>,
    tree: Arc<T>,
}

impl<T> Shared<T> {
    /// A tree without workers.
    pub fn new(tree: T) -> Self {
        Shared {
            workers: None,
            tree: Arc::new(tree),
        }
    }

    /// The tree, for workers to refer to.
    pub fn tree(&self) -> Arc<T> {
        self.tree.clone()
    }

    /// The same with these workers.
    pub fn with_workers(self, workers: Workers) -> Self {
        let workers = Some(Arc::new(workers));
        Shared { workers, ..self }
    }

    pub fn workers(&self) -> Option<&Workers> {
        self.workers.as_deref()
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.tree
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared {
            workers: self.workers.clone(),
            tree: self.tree.clone(),
        }
    }
}
