//! A pool in this process, in whose operations a test meddles.

use std::time::Duration;

use timberline_remote::fabric::{Completion, Fabric, InProcess, Operation};
use timberline_remote::{ComputeId, ServerId};

/// Begins operations by a function.
pub struct Meddling<F> {
    pub inner: InProcess,
    pub start: F,
}

impl<F: Fn(&InProcess, Operation) -> Completion + Send + Sync> Fabric for Meddling<F> {
    fn servers(&self) -> ServerId {
        self.inner.servers()
    }

    fn compute(&self) -> ComputeId {
        self.inner.compute()
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn start(&self, operation: Operation) -> Completion {
        (self.start)(&self.inner, operation)
    }
}
