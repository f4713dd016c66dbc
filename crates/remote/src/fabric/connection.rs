//! A compute server's end of a fabric.

use std::sync::Arc;
use std::time::Duration;

use super::completion::yield_now;
use super::counts::Counters;
use super::silences::Silences;
use super::{Call, Completion, Counts, Fabric, Find, Found, Load, Operation, Reply};
use crate::address::{Address, ComputeId, ServerId};
use crate::error::Result;

/// For so long operations that must not be left half done are tried again while a server is silent.
const LONGEST: Duration = Duration::from_secs(5);

/// Operations on the memory pool, counted.
pub struct Connection {
    fabric: Arc<dyn Fabric>,
    counters: Counters,
    silences: Silences,
}

impl Connection {
    /// A connection whose counts begin at 0.
    pub fn new(fabric: Arc<dyn Fabric>) -> Connection {
        Connection {
            fabric,
            counters: Counters::default(),
            silences: Silences::default(),
        }
    }

    /// How many memory servers there are.
    pub fn servers(&self) -> ServerId {
        self.fabric.servers()
    }

    /// The compute server whose connection this is.
    pub fn compute(&self) -> ComputeId {
        self.fabric.compute()
    }

    /// The time by its clock.
    pub fn now(&self) -> Duration {
        self.fabric.now()
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

    /// Writes to one server, in this order: who sees a word of one of these writes sees all of
    /// those before it.
    ///
    /// # Errors
    /// No such memory, or no answer: some of the words may be there, those of later writes only if
    /// all of earlier ones are.
    pub async fn write_in_order(&self, writes: Vec<(Address, Vec<u64>)>) -> Result<()> {
        let operation = Operation::WriteInOrder(writes);
        self.start(operation).await.map(|_| ())
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

    /// Memory for nodes that no one else has: at most a chunk of
    /// [`CHUNK`](crate::pool::CHUNK) bytes.
    ///
    /// # Errors
    /// The server is full, or did not answer.
    pub async fn allocate(&self, server: ServerId) -> Result<Vec<Address>> {
        match self.start(Operation::Call(server, Call::Allocate)).await? {
            Reply::Words(nodes) => {
                let nodes = nodes.into_iter();
                Ok(nodes.map(|offset| Address::new(server, offset)).collect())
            }
            other => unreachable!("memory was asked for, the answer is {other:?}"),
        }
    }

    /// Gives a node's memory back, which nobody uses any more. It must not be tried again.
    ///
    /// # Errors
    /// It was not handed out; or no answer, and it may have been given to another compute server.
    pub async fn give_back(&self, node: Address) -> Result<()> {
        let call = Operation::Call(node.server(), Call::GiveBack(node));
        self.start(call).await.map(|_| ())
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

    /// Asks a memory server for the leaf that has a key. `None`: it cannot say.
    ///
    /// # Errors
    /// No answer.
    pub async fn find(&self, find: Find) -> Result<Option<Found>> {
        let call = Operation::Call(find.from.server(), Call::Find(find));
        match self.start(call).await? {
            Reply::Found(found) => Ok(found),
            other => unreachable!("a leaf was asked for, the answer is {other:?}"),
        }
    }

    /// Tries again while no answer comes, until the server has been silent for five seconds:
    /// `attempt` may have been carried out each time.
    ///
    /// # Errors
    /// As the attempt's.
    pub async fn insist<T>(&self, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        use crate::error::Error::{Lost, TimedOut, Unreachable};
        let mut silent = None;
        loop {
            let result = attempt().await;
            let Err(Lost(server) | TimedOut(server) | Unreachable(server, _)) = result else {
                if let Some(server) = silent {
                    self.silences.end(server);
                }
                return result;
            };
            if self.silences.note(server, self.now(), LONGEST) > LONGEST {
                return result;
            }
            silent = Some(server);
            yield_now().await;
        }
    }

    /// Keeps a compute server from the memory of all servers, for good. Nothing that it has begun
    /// is carried out after this.
    ///
    /// # Errors
    /// A memory server did not answer: it may or may not have fenced it.
    pub async fn fence(&self, compute: ComputeId) -> Result<()> {
        let fence = |server| self.start(Operation::Call(server, Call::Fence(compute)));
        let fences: Vec<_> = (0..self.servers()).map(fence).collect();
        for fence in fences {
            fence.await?;
        }
        Ok(())
    }

    /// Whether a memory server has fenced a compute server.
    ///
    /// # Errors
    /// No answer.
    pub async fn is_fenced(&self, server: ServerId, compute: ComputeId) -> Result<bool> {
        let call = Operation::Call(server, Call::IsFenced(compute));
        Ok(self.word(call).await? != 0)
    }

    async fn word(&self, operation: Operation) -> Result<u64> {
        match self.start(operation).await? {
            Reply::Word(word) => Ok(word),
            other => unreachable!("a word was asked for, the answer is {other:?}"),
        }
    }
}
