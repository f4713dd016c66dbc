//! The bit layout of keys.
//!
//! ```text
//!  63    60 59         44 43      40 39                                   0
//! | table  | warehouse   | district | number                               |
//!                                     item, customer, history: its number
//!                                     order, new order: its number
//!                                     39       12 11        0
//!                        name:       | last name | customer |
//!                                     39       28 27        0
//!             order of customer:     | customer  | order    |
//!                                     39         4 3        0
//!                        line:       | order      | line    |
//! ```
//!
//! Keys are ordered by table, then by warehouse, then by district. Numbers start at 1, as in the
//! specification. An item has no warehouse; a warehouse and its stock have no district.

/// The tables and the two secondary indexes (3.1), in key order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Table {
    Item = 1,
    Warehouse,
    District,
    Customer,
    /// Customers by last name.
    Name,
    History,
    Order,
    /// Orders by customer.
    OrderOfCustomer,
    NewOrder,
    Line,
    Stock,
}

impl Table {
    pub const ALL: [Table; 11] = [
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::Name,
        Table::History,
        Table::Order,
        Table::OrderOfCustomer,
        Table::NewOrder,
        Table::Line,
        Table::Stock,
    ];
}

/// The maximum number of warehouses that the bits can hold.
pub const MOST_WAREHOUSES: u64 = (1 << 16) - 1;

/// A district: its warehouse and its number in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub warehouse: u64,
    pub district: u64,
}

impl Place {
    /// The key prefix of a whole warehouse.
    pub fn warehouse(warehouse: u64) -> Place {
        Place {
            warehouse,
            district: 0,
        }
    }

    /// The key of a record of this district.
    #[inline]
    pub fn key(self, table: Table, number: u64) -> u64 {
        debug_assert!(number < 1 << 40);
        (table as u64) << 60 | self.warehouse << 44 | self.district << 40 | number
    }
}

/// The key of an item, which belongs to no warehouse.
#[inline]
pub fn item(number: u64) -> u64 {
    Place::warehouse(0).key(Table::Item, number)
}

/// The number of a customer in the index by last name.
#[inline]
pub fn named(name: u64, customer: u64) -> u64 {
    name << 12 | customer
}

/// The number of an order in the index by customer.
#[inline]
pub fn ordered(customer: u64, order: u64) -> u64 {
    customer << 28 | order
}

/// The number of an order line; lines count from 1.
#[inline]
pub fn line(order: u64, line: u64) -> u64 {
    order << 4 | line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_table_warehouse_district_and_number() {
        let at = |warehouse, district| Place {
            warehouse,
            district,
        };
        let keys = [
            item(100_000),
            at(1, 0).key(Table::Stock, 1) - (1 << 60),
            at(1, 1).key(Table::Line, line(1, 1)),
            at(1, 1).key(Table::Line, line(1, 15)),
            at(1, 1).key(Table::Line, line(2, 1)),
            at(1, 2).key(Table::Line, line(1, 1)),
            at(2, 1).key(Table::Line, line(1, 1)),
            at(1, 0).key(Table::Stock, 1),
            at(MOST_WAREHOUSES, 0).key(Table::Stock, 100_000),
        ];
        assert_eq!(keys[1] >> 60, Table::Line as u64);
        assert!(keys.is_sorted_by(|one, two| one < two), "{keys:x?}");
        assert!(ordered(1, (1 << 28) - 1) < ordered(2, 0) && named(0, 3000) < named(1, 1));
    }
}
