//! `tpcc`: the accesses to indexes that the five transactions of TPC-C make, on one ordered map.
//!
//! After "TPC Benchmark C, Standard Specification, Revision 5.11"; clauses below are its. SIDLE's
//! Figure 22 runs TPC-C in a database (Silo), an index a table. **This is no database**: there are
//! no transactions, no isolation, no columns and no think times, and nothing here may be called a
//! TPC-C result. It is the pattern of the accesses: which records are hot (warehouses, districts,
//! the customers and items that NURand prefers), which are written once and never read again, and
//! where the map grows.
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
//! One line of an order in a hundred is supplied by another warehouse, and fifteen customers in a
//! hundred pay at another one. What a transaction reads and writes again is one
//! [`ReadModifyWrite`](super::Op::ReadModifyWrite). That is 32 requests a transaction; one in five
//! inserts.
//!
//! What differs from the specification, as requests know no deletion and streams share nothing:
//!
//! - A delivered order's place in the queue is overwritten and stays. No transaction is rolled
//!   back.
//! - Threads have their own home warehouses; where there are more threads, those of one warehouse
//!   take turns in the numbers of its orders, and each delivers its own.
//! - What an order is of follows from its number: 5 to 15 lines, each as often, and items and
//!   customer drawn from a sequence of its own. So deliveries and stock levels know what was
//!   ordered, and nothing is kept of an order.
//!
//! Invariants: those of [workloads](super), but that a request divides now and then.

mod keys;
mod nurand;
mod orders;
mod scale;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::spec::BadSpec;
use scale::Scale;
pub use stream::TpccStream;

/// The name of the workload.
const NAME: &str = "tpcc";

/// What TPC-C asks, of a number of warehouses: the accesses of its five transactions, and no
/// database. Copying it is cheap.
#[derive(Clone, Debug)]
pub struct Tpcc {
    name: String,
    scale: Arc<Scale>,
}

impl Tpcc {
    /// How it is written: `tpcc`, or `tpcc:W` for so many warehouses.
    pub const NAMES: [&str; 2] = [NAME, "tpcc:W"];

    /// The share of its requests that insert: thirteen of a new order and one of a payment, of
    /// 32.042 of an average transaction.
    pub const INSERTS: f64 = (0.45 * 13.0 + 0.43) / 32.042;

    /// Reads a name. Without a number of warehouses, there are as many as fit into `records` whole,
    /// 559,041 records each beside 100,000 items; fewer records than one takes are one with
    /// proportionally fewer customers, orders and items. `None` if it is another workload's.
    ///
    /// # Errors
    /// So few records, or not so many warehouses, are possible.
    pub fn parse(name: &str, records: u64) -> Option<Result<Tpcc, BadSpec>> {
        let scale = match name.strip_prefix(NAME)? {
            "" => Scale::of_records(records),
            rest => Scale::of_warehouses(rest.strip_prefix(':')?),
        };
        Some(scale.map(|scale| Tpcc {
            name: name.into(),
            scale: Arc::new(scale),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many records are loaded.
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
