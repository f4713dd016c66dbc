//! A compute server's end of a fabric.

use std::sync::Arc;

use super::counts::Counters;
use super::{Call, Completion, Counts, Fabric, Load, Operation, Reply};
use crate::address::{Address, ServerId};
use crate::error::Result;

/// Operations on the memory pool, counted.
pub struct Connection {
    fabric: Arc<dyn Fabric>,
    counters: Counters,
}

impl Connection {
    /// A connection whose counts begin at 0.
    pub fn new(fabric: Arc<dyn Fabric>) -> Connection {
        Connection {
            fabric,
            counters: Counters::default(),
        }
    }

    /// How many memory servers there are.
    pub fn servers(&self) -> ServerId {
        self.fabric.servers()
    }

    /// What was begun so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Begins an operation.
    pub fn start(&self, operation: Operation) -> Completion {
        self.counters.count(&operation);
        self.fabric.start(operation)
    }

    /// Reads so many words. Another server may write between two of them.
    ///
    /// # Errors
    /// No such memory, or no answer.
    pub async fn read(&self, at: Address, words: usize) -> Result<Vec<u64>> {
        match self.start(Operation::Read(at, words)).await? {
            Reply::Words(words) => Ok(words),
            other => unreachable!("a read was answered by {other:?}"),
        }
    }

    /// Writes words.
    ///
    /// # Errors
    /// No such memory, or no answer: the words may be there, or some of them.
    pub async fn write(&self, at: Address, words: Vec<u64>) -> Result<()> {
        self.start(Operation::Write(at, words)).await.map(|_| ())
    }

    /// Replaces the word `old` by `new`, if it is there. Returns the word that was there.
    ///
    /// # Errors
    /// No such memory, or no answer: the word may have been replaced.
    pub async fn compare_exchange(&self, at: Address, old: u64, new: u64) -> Result<u64> {
        self.word(Operation::CompareExchange { at, old, new }).await
    }

    /// Adds to a word. Returns the word before.
    ///
    /// # Errors
    /// No such memory, or no answer: it may have been added.
    pub async fn fetch_add(&self, at: Address, add: u64) -> Result<u64> {
        self.word(Operation::FetchAdd(at, add)).await
    }

    /// A chunk of memory of [`CHUNK`](crate::pool::CHUNK) bytes that no one else has.
    ///
    /// # Errors
    /// The server is full, or did not answer.
    pub async fn allocate(&self, server: ServerId) -> Result<Address> {
        let offset = self.word(Operation::Call(server, Call::Allocate)).await?;
        Ok(Address::new(server, offset))
    }

    /// What a memory server says of itself.
    ///
    /// # Errors
    /// No answer.
    pub async fn load(&self, server: ServerId) -> Result<Load> {
        match self.start(Operation::Call(server, Call::Load)).await? {
            Reply::Load(load) => Ok(load),
            other => unreachable!("a call was answered by {other:?}"),
        }
    }

    async fn word(&self, operation: Operation) -> Result<u64> {
        match self.start(operation).await? {
            Reply::Word(word) => Ok(word),
            other => unreachable!("a word was asked for, the answer is {other:?}"),
        }
    }
}
