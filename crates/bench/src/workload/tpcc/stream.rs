//! One thread's requests, a transaction at a time.

use std::sync::Arc;

use super::keys::{self, Place, Table};
use super::nurand::NuRand;
use super::orders::{Order, lines_of, lines_up_to};
use super::scale::{DISTRICTS, Scale};
use crate::workload::{Op, Request, Rng};

/// Upper bound of the requests of a transaction: a stock level of twenty orders with fifteen lines
/// needs the most.
const MAX_REQUESTS: usize = 512;
/// Orders that a stock level reads.
const LAST_ORDERS: u64 = 20;

/// A transaction, with its clause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transaction {
    /// 2.4
    NewOrder,
    /// 2.5
    Payment,
    /// 2.6
    OrderStatus,
    /// 2.7
    Delivery,
    /// 2.8
    StockLevel,
}

impl Transaction {
    /// Draws one by its share (5.2.3).
    #[inline]
    pub fn draw(rng: &mut Rng) -> Transaction {
        match rng.below(100) {
            0..45 => Transaction::NewOrder,
            45..88 => Transaction::Payment,
            88..92 => Transaction::OrderStatus,
            92..96 => Transaction::Delivery,
            _ => Transaction::StockLevel,
        }
    }
}

/// Assigns numbers to the threads that share a home warehouse.
#[derive(Clone, Copy, Debug)]
struct Turns {
    nth: u64,
    of: u64,
}

impl Turns {
    /// The first of this thread's numbers, from `number` on.
    fn from(self, number: u64) -> u64 {
        number + (self.nth + self.of - number % self.of) % self.of
    }
}

/// A thread's state of a home district.
#[derive(Clone, Debug)]
struct District {
    next_order: u64,
    next_history: u64,
    /// The oldest undelivered order.
    oldest: u64,
    /// The newest order of each customer, starting with customer 1.
    newest: Vec<u32>,
}

/// An endless sequence of requests; see [`Tpcc::stream`](super::Tpcc::stream).
///
/// Streams share no cache line, as each request writes to one.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct TpccStream {
    scale: Arc<Scale>,
    seed: u64,
    rng: Rng,
    turns: Turns,
    /// The thread's home warehouses.
    homes: Vec<u64>,
    /// Their districts, ten each.
    districts: Vec<District>,
    /// The requests of the current transaction.
    asked: Asked,
    /// The number of them already returned.
    done: usize,
}

#[derive(Clone, Debug)]
struct Asked(Vec<Request>);

impl Asked {
    #[inline]
    fn add(&mut self, op: Op, key: u64) {
        self.0.push(Request { op, key });
    }
}

impl TpccStream {
    pub(super) fn new(scale: Arc<Scale>, seed: u64, thread: u64, threads: u64) -> TpccStream {
        assert!(thread < threads, "thread {thread} of {threads}");
        let warehouses = scale.warehouses;
        // Either a thread has several warehouses, or a warehouse has several threads.
        let alike = thread % warehouses;
        let turns = Turns {
            nth: thread / warehouses,
            of: (threads - alike).div_ceil(warehouses),
        };
        let homes: Vec<u64> = match threads <= warehouses {
            true => (thread..warehouses)
                .step_by(threads as usize)
                .map(|nth| nth + 1)
                .collect(),
            false => vec![alike + 1],
        };
        let district = District {
            next_order: turns.from(scale.customers + 1),
            next_history: turns.from(scale.customers + 1),
            oldest: turns.from(scale.first_waiting()),
            newest: scale.order_of().iter().copied().map(u32::from).collect(),
        };
        let districts = vec![district; homes.len() * DISTRICTS as usize];
        TpccStream {
            scale,
            seed,
            rng: Rng::new(seed, thread),
            turns,
            homes,
            districts,
            asked: Asked(Vec::with_capacity(MAX_REQUESTS)),
            done: 0,
        }
    }

    /// The next request. Not an `Iterator`'s `next`, because the stream never ends.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "endless: an Option would be checked for nothing"
    )]
    pub fn next(&mut self) -> Request {
        loop {
            if let Some(request) = self.asked.0.get(self.done) {
                self.done += 1;
                return *request;
            }
            self.asked.0.clear();
            self.done = 0;
            let transaction = Transaction::draw(&mut self.rng);
            self.begin(transaction);
        }
    }

    /// Queues all requests of a transaction. A delivery without an undelivered order has none.
    fn begin(&mut self, transaction: Transaction) {
        let home = self.rng.below(self.homes.len() as u64) as usize;
        let place = Place {
            warehouse: self.homes[home],
            district: self.any_district(),
        };
        let known = |place: Place| home * DISTRICTS as usize + place.district as usize - 1;
        match transaction {
            Transaction::NewOrder => self.new_order(place, known(place)),
            Transaction::Payment => self.payment(place, known(place)),
            Transaction::OrderStatus => self.order_status(place, known(place)),
            Transaction::Delivery => {
                for district in 1..=DISTRICTS {
                    let place = Place { district, ..place };
                    self.deliver(place, known(place));
                }
            }
            Transaction::StockLevel => self.stock_level(place, known(place)),
        }
    }

    fn any_district(&mut self) -> u64 {
        1 + self.rng.below(DISTRICTS)
    }

    fn new_order(&mut self, place: Place, known: usize) {
        let district = &mut self.districts[known];
        let number = district.next_order;
        district.next_order += self.turns.of;
        let order = Order::new(&self.scale, self.seed, place, number);
        let customer = order.customer;
        district.newest[customer as usize - 1] = number as u32;

        let asked = &mut self.asked;
        asked.add(
            Op::Read,
            Place::warehouse(place.warehouse).key(Table::Warehouse, 0),
        );
        asked.add(Op::ReadModifyWrite, place.key(Table::District, 0));
        asked.add(Op::Read, place.key(Table::Customer, customer));
        asked.add(Op::Insert, place.key(Table::Order, number));
        asked.add(
            Op::Insert,
            place.key(Table::OrderOfCustomer, keys::ordered(customer, number)),
        );
        asked.add(Op::Insert, place.key(Table::NewOrder, number));
        for (nth, line) in (1..).zip(order) {
            let stock = Place::warehouse(line.supplier).key(Table::Stock, line.item);
            asked.add(Op::Read, keys::item(line.item));
            asked.add(Op::ReadModifyWrite, stock);
            asked.add(Op::Insert, place.key(Table::Line, keys::line(number, nth)));
        }
    }

    fn payment(&mut self, place: Place, known: usize) {
        let warehouse = Place::warehouse(place.warehouse).key(Table::Warehouse, 0);
        self.asked.add(Op::ReadModifyWrite, warehouse);
        self.asked
            .add(Op::ReadModifyWrite, place.key(Table::District, 0));
        let of = match self.rng.below(100) {
            0..85 => place,
            _ => Place {
                warehouse: self.scale.other_warehouse(&mut self.rng, place.warehouse),
                district: self.any_district(),
            },
        };
        let customer = self.customer(of);
        self.asked
            .add(Op::ReadModifyWrite, of.key(Table::Customer, customer));
        let history = &mut self.districts[known].next_history;
        self.asked
            .add(Op::Insert, place.key(Table::History, *history));
        *history += self.turns.of;
    }

    fn order_status(&mut self, place: Place, known: usize) {
        let customer = self.customer(place);
        self.asked
            .add(Op::Read, place.key(Table::Customer, customer));
        let order = u64::from(self.districts[known].newest[customer as usize - 1]);
        let newest = place.key(Table::OrderOfCustomer, keys::ordered(customer, order));
        self.asked.add(Op::Scan(1), newest);
        self.asked.add(Op::Read, place.key(Table::Order, order));
        let lines = Op::Scan(lines_of(order) as u16);
        self.asked
            .add(lines, place.key(Table::Line, keys::line(order, 1)));
    }

    fn deliver(&mut self, place: Place, known: usize) {
        let district = &mut self.districts[known];
        let order = district.oldest;
        if order >= district.next_order {
            return;
        }
        district.oldest += self.turns.of;
        let customer = Order::new(&self.scale, self.seed, place, order).customer;
        let asked = &mut self.asked;
        asked.add(Op::Scan(1), place.key(Table::NewOrder, order));
        asked.add(Op::Update, place.key(Table::NewOrder, order));
        asked.add(Op::ReadModifyWrite, place.key(Table::Order, order));
        for line in 1..=lines_of(order) {
            asked.add(
                Op::ReadModifyWrite,
                place.key(Table::Line, keys::line(order, line)),
            );
        }
        asked.add(Op::ReadModifyWrite, place.key(Table::Customer, customer));
    }

    fn stock_level(&mut self, place: Place, known: usize) {
        self.asked.add(Op::Read, place.key(Table::District, 0));
        let next = self.districts[known].next_order;
        let mut first = next.saturating_sub(LAST_ORDERS).max(1);
        if first > self.scale.customers {
            // The order is this thread's own, or loaded: other threads may be behind.
            first = self
                .turns
                .from((first + 1).saturating_sub(self.turns.of))
                .max(1);
        }
        let end = next.min(first + LAST_ORDERS);
        let lines = lines_up_to(end - 1) - lines_up_to(first - 1);
        let from = place.key(Table::Line, keys::line(first, 1));
        self.asked.add(Op::Scan(lines as u16), from);
        let stock = Place::warehouse(place.warehouse);
        for number in first..end {
            for line in Order::new(&self.scale, self.seed, place, number) {
                self.asked.add(Op::Read, stock.key(Table::Stock, line.item));
            }
        }
    }

    /// A customer of a district: three in five are looked up by last name, which selects the middle
    /// one of that name (2.5.1.2).
    fn customer(&mut self, of: Place) -> u64 {
        match self.rng.below(100) {
            0..60 => {
                let name = NuRand::NAME.draw(&mut self.rng, 0, self.scale.names - 1);
                let named = self.scale.named(name);
                let first = of.key(Table::Name, keys::named(name, named[0].into()));
                self.asked.add(Op::Scan(named.len() as u16), first);
                named[(named.len() - 1) / 2].into()
            }
            _ => NuRand::CUSTOMER.draw(&mut self.rng, 1, self.scale.customers),
        }
    }
}
