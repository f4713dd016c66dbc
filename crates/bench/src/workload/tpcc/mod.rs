//! `tpcc`: the index accesses of TPC-C's five transactions, on one ordered map.
//!
//! After "TPC Benchmark C, Standard Specification, Revision 5.11"; clause numbers refer to it.
//! SIDLE's Figure 22 runs TPC-C in a database (Silo) with one index per table. **This is no
//! database**: there are no transactions, no isolation, no columns and no think times, and no
//! result may be called a TPC-C result. It reproduces the access pattern: which records are hot
//! (warehouses, districts, the customers and items that NURand prefers), which are written once and
//! never read again, and where the map grows.
//!
//! - New-Order (2.4), 45 %: its warehouse, district and customer; an order, its entry in the queue
//!   and in the customer's list; 5 to 15 lines, each with its item and stock.
//! - Payment (2.5), 43 %: warehouse, district, customer (three in five by last name); a line of
//!   history.
//! - Order-Status (2.6), 4 %: a customer, the newest order and its lines.
//! - Delivery (2.7), 4 %: the oldest queued order of each of ten districts: its entry, its lines,
//!   its customer.
//! - Stock-Level (2.8), 4 %: a district, the lines of its last twenty orders, the stock of each
//!   line.
//!
//! One order line in a hundred comes from another warehouse, and fifteen customers in a hundred pay
//! at another one. A record that a transaction reads and writes back is one
//! [`ReadModifyWrite`](super::Op::ReadModifyWrite). That makes 32 requests a transaction; one in
//! five inserts.
//!
//! Differences from the specification, since requests have no deletions and streams share nothing:
//!
//! - A delivered order's queue entry is overwritten and stays. No transaction is rolled back.
//! - Threads have their own home warehouses. If there are more threads than warehouses, the threads
//!   of one warehouse use its order numbers in turn, and each delivers its own orders.
//! - The number of an order determines its content: 5 to 15 lines, each count equally often, with
//!   items and customer from a random sequence of its own. So deliveries and stock levels know the
//!   content of orders without storing it.
//!
//! Invariants: those of [workloads](super), except that drawing a request sometimes divides.

mod keys;
mod nurand;
mod orders;
mod scale;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::BadInput;
use scale::Scale;
pub use stream::TpccStream;

const NAME: &str = "tpcc";

/// TPC-C for a number of warehouses: the index accesses of its five transactions, and no database.
/// Cheap to copy.
#[derive(Clone, Debug)]
pub struct Tpcc {
    name: String,
    scale: Arc<Scale>,
}

impl Tpcc {
    /// Its names: `tpcc`, or `tpcc:W` for W warehouses.
    pub const NAMES: [&str; 2] = [NAME, "tpcc:W"];

    /// The fraction of its requests that insert: thirteen of a new order and one of a payment, out
    /// of 32.042 of an average transaction.
    pub const INSERTS: f64 = (0.45 * 13.0 + 0.43) / 32.042;

    /// Parses a name. Without a number of warehouses, there are as many as fit completely into
    /// `records`: 559,041 records each, besides 100,000 items. Fewer records than that make one
    /// warehouse with proportionally fewer customers, orders and items. `None` if the name is
    /// another workload's.
    ///
    /// # Errors
    /// The number of records is too low, or the number of warehouses is out of range.
    pub fn parse(name: &str, records: u64) -> Option<Result<Tpcc, BadInput>> {
        let scale = match name.strip_prefix(NAME)? {
            "" => Scale::of_records(records),
            rest => Scale::of_warehouses(rest.strip_prefix(':')?),
        };
        Some(scale.map(|scale| Tpcc {
            name: name.into(),
            scale: Arc::new(scale),
        }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn records(&self) -> u64 {
        self.scale.records()
    }

    /// The key of the loaded record with rank `id`, which must be below [`Tpcc::records`].
    pub fn key(&self, id: u64) -> u64 {
        self.scale.key(id)
    }

    /// The endless requests of `thread`, one of `threads`.
    ///
    /// # Panics
    /// If `thread` is not below `threads`.
    pub fn stream(&self, seed: u64, thread: u64, threads: u64) -> TpccStream {
        TpccStream::new(self.scale.clone(), seed, thread, threads)
    }
}
