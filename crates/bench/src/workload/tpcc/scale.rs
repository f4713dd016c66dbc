//! The number of records of each table, and their content (1.2 and 4.3.3 of the specification).

use super::keys::{self, MOST_WAREHOUSES, Place, Table};
use super::nurand::NuRand;
use super::orders::{lines_up_to, nth_line};
use crate::BadInput;
use crate::workload::{Permutation, Rng};

/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;
/// Customers of a district.
const CUSTOMERS: u64 = 3000;
/// Items per customer of a district: 100,000 items.
const ITEMS_PER_CUSTOMER: f64 = 100.0 / 3.0;
/// Last names.
const NAMES: u64 = 1000;
/// With fewer customers, a district has hardly any undelivered order.
const FEWEST_CUSTOMERS: u64 = 10;
/// Loaded records are the same for all seeds of requests.
const LOADING: u64 = 0;

/// The loaded records.
#[derive(Debug)]
pub struct Scale {
    pub warehouses: u64,
    /// Items, each with stock in every warehouse.
    pub items: u64,
    /// Customers of a district, and loaded orders: one for each customer.
    pub customers: u64,
    /// Last names.
    pub names: u64,
    /// The customers of a district, by last name and number.
    by_name: Vec<u16>,
    /// The start of each name's customers in it, and its end.
    begins: Vec<u16>,
    /// The customer of each loaded order, starting with order 1.
    customer_of: Vec<u16>,
    /// The loaded order of each customer, starting with customer 1.
    order_of: Vec<u16>,
}

impl Scale {
    /// Warehouses of full size.
    pub fn of_warehouses(text: &str) -> Result<Scale, BadInput> {
        let warehouses = text.parse().ok();
        match warehouses.filter(|warehouses| (1..=MOST_WAREHOUSES).contains(warehouses)) {
            Some(warehouses) => Ok(Scale::new(warehouses, CUSTOMERS)),
            None => Err(BadInput(format!(
                "tpcc:{text}: give 1 to {MOST_WAREHOUSES} warehouses"
            ))),
        }
    }

    /// As many warehouses as fit into this many records, or one smaller one.
    pub fn of_records(records: u64) -> Result<Scale, BadInput> {
        let one = Scale::new(1, CUSTOMERS);
        let each = one.records() - one.items;
        let most = MOST_WAREHOUSES * each + one.items;
        let least = Scale::new(1, FEWEST_CUSTOMERS).records();
        if !(least..=most).contains(&records) {
            return Err(BadInput(format!(
                "tpcc of {records} records: possible are {least} to {most}"
            )));
        }
        let whole = records.saturating_sub(one.items) / each;
        if whole > 0 {
            return Ok(Scale::new(whole, CUSTOMERS));
        }
        let fits = |&customers: &u64| Scale::new(1, customers).records() <= records;
        let customers = (FEWEST_CUSTOMERS..CUSTOMERS).rev().find(fits);
        Ok(Scale::new(1, customers.unwrap_or(FEWEST_CUSTOMERS)))
    }

    fn new(warehouses: u64, customers: u64) -> Scale {
        let names = NAMES.min(customers);
        // Each name once, then by preference (4.3.3.1).
        let mut rng = Rng::new(LOADING, 0);
        let mut customers_and_names: Vec<(u64, u16)> = (1..=customers)
            .map(|customer| match customer <= names {
                true => (customer - 1, customer as u16),
                false => (
                    NuRand::NAME_LOADED.draw(&mut rng, 0, names - 1),
                    customer as u16,
                ),
            })
            .collect();
        customers_and_names.sort_unstable();
        let begins = (0..=names)
            .map(|name| customers_and_names.partition_point(|&(other, _)| other < name) as u16);
        let begins = begins.collect();
        let order = Permutation::new(customers, Rng::new(LOADING, 1));
        let customer_of: Vec<u16> = (0..customers).map(|nth| order.at(nth) as u16 + 1).collect();
        let mut order_of = vec![0; customers as usize];
        for (order, customer) in (1..).zip(&customer_of) {
            order_of[usize::from(*customer) - 1] = order;
        }
        Scale {
            warehouses,
            items: (customers as f64 * ITEMS_PER_CUSTOMER).round() as u64,
            customers,
            names,
            by_name: customers_and_names
                .into_iter()
                .map(|(_, customer)| customer)
                .collect(),
            begins,
            customer_of,
            order_of,
        }
    }

    /// The customers of this last name in every district.
    #[inline]
    pub fn named(&self, name: u64) -> &[u16] {
        let name = name as usize;
        &self.by_name[usize::from(self.begins[name])..usize::from(self.begins[name + 1])]
    }

    #[inline]
    pub fn customer_of(&self, order: u64) -> u64 {
        self.customer_of[order as usize - 1].into()
    }

    /// The customers' loaded orders, starting with customer 1.
    pub fn order_of(&self) -> &[u16] {
        &self.order_of
    }

    /// The first undelivered loaded order: the last three in ten are undelivered.
    pub fn first_waiting(&self) -> u64 {
        self.customers - self.waiting() + 1
    }

    fn waiting(&self) -> u64 {
        self.customers * 3 / 10
    }

    /// Any warehouse except this one, if there is another.
    #[inline]
    pub fn other_warehouse(&self, rng: &mut Rng, but: u64) -> u64 {
        if self.warehouses == 1 {
            return but;
        }
        let other = 1 + rng.below(self.warehouses - 1);
        other + u64::from(other >= but)
    }

    /// The total number of records.
    pub fn records(&self) -> u64 {
        Table::ALL
            .into_iter()
            .map(|table| self.records_of(table))
            .sum()
    }

    fn records_of(&self, table: Table) -> u64 {
        match table {
            Table::Item => self.items,
            Table::Warehouse => self.warehouses,
            Table::Stock => self.warehouses * self.items,
            table => self.warehouses * DISTRICTS * self.records_of_district(table),
        }
    }

    fn records_of_district(&self, table: Table) -> u64 {
        match table {
            Table::Line => lines_up_to(self.customers),
            Table::NewOrder => self.waiting(),
            Table::District => 1,
            _ => self.customers,
        }
    }

    /// The key of the record with rank `id`.
    pub fn key(&self, id: u64) -> u64 {
        let mut rest = id;
        for table in Table::ALL {
            let records = self.records_of(table);
            if rest < records {
                return self.key_in(table, rest);
            }
            rest -= records;
        }
        unreachable!("there are {} records, and none is {id}", self.records())
    }

    fn key_in(&self, table: Table, nth: u64) -> u64 {
        match table {
            Table::Item => return keys::item(nth + 1),
            Table::Warehouse => return Place::warehouse(nth + 1).key(table, 0),
            Table::Stock => {
                let (warehouse, item) = (nth / self.items + 1, nth % self.items + 1);
                return Place::warehouse(warehouse).key(table, item);
            }
            _ => {}
        }
        let each = self.records_of_district(table);
        let (district, nth) = (nth / each, nth % each);
        let place = Place {
            warehouse: district / DISTRICTS + 1,
            district: district % DISTRICTS + 1,
        };
        let number = match table {
            Table::District => 0,
            Table::Name => {
                let name = self
                    .begins
                    .partition_point(|&begin| u64::from(begin) <= nth)
                    as u64
                    - 1;
                keys::named(name, self.by_name[nth as usize].into())
            }
            Table::OrderOfCustomer => keys::ordered(nth + 1, self.order_of[nth as usize].into()),
            Table::NewOrder => self.first_waiting() + nth,
            Table::Line => {
                let (order, line) = nth_line(nth);
                keys::line(order, line)
            }
            _ => nth + 1,
        };
        place.key(table, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a warehouse: itself, 10 districts, 30,000 each of customers, names, lines of
    /// history, orders and orders of customers, 9,000 new orders, 300,030 lines, 100,000 of stock:
    /// 559,041.
    #[test]
    fn a_warehouse_has_what_the_specification_says() {
        let one = Scale::of_warehouses("1").unwrap();
        let of = |table| one.records_of(table);
        assert_eq!((of(Table::Item), of(Table::Stock)), (100_000, 100_000));
        assert_eq!((of(Table::District), of(Table::Customer)), (10, 30_000));
        assert_eq!((of(Table::Order), of(Table::NewOrder)), (30_000, 9_000));
        assert_eq!(of(Table::Line), 300_030);
        assert_eq!(one.records(), 100_000 + 559_041);
        let five = Scale::of_warehouses("5").unwrap();
        assert_eq!(five.records(), 100_000 + 5 * (one.records() - 100_000));
    }

    #[test]
    fn keys_grow_strictly_with_the_id() {
        for scale in [
            Scale::of_records(3_000),
            Scale::of_records(50_000),
            Scale::of_warehouses("2"),
        ] {
            let scale = scale.unwrap();
            let keys: Vec<u64> = (0..scale.records()).map(|id| scale.key(id)).collect();
            assert!(keys.is_sorted_by(|one, two| one < two));
        }
    }

    #[test]
    fn warehouses_follow_from_the_records() {
        let of = |records| {
            let scale = Scale::of_records(records).unwrap();
            assert!(scale.records() <= records, "{records}");
            (scale.warehouses, scale.customers, scale.records())
        };
        assert_eq!(of(2_000_000).0, 3);
        assert_eq!(of(20_000_000).0, 35);
        let (warehouses, customers, records) = of(200_000);
        assert!(warehouses == 1 && (900..920).contains(&customers) && records > 199_000);
        for bad in [0, 1000] {
            assert!(
                Scale::of_records(bad)
                    .unwrap_err()
                    .to_string()
                    .contains("possible are")
            );
        }
        for bad in ["", "0", "65536", "x"] {
            let error = Scale::of_warehouses(bad).unwrap_err().to_string();
            assert_eq!(error, format!("tpcc:{bad}: give 1 to 65535 warehouses"));
        }
    }

    #[test]
    fn every_name_and_every_customer_is_there_once_in_the_lists() {
        let scale = Scale::of_warehouses("1").unwrap();
        let all: usize = (0..1000).map(|name| scale.named(name).len()).sum();
        assert_eq!(all, 3000);
        assert!((0..1000).all(|name| !scale.named(name).is_empty()));
        let mut customers = scale.by_name.clone();
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3000));
        assert!((1..=3000u64).all(|order| {
            let customer = scale.customer_of(order) as usize;
            u64::from(scale.order_of[customer - 1]) == order
        }));
    }

    #[test]
    fn another_warehouse_is_any_but_this() {
        let mut rng = Rng::new(1, 0);
        let three = Scale::of_warehouses("3").unwrap();
        let mut counts = [0; 4];
        for _ in 0..1000 {
            counts[three.other_warehouse(&mut rng, 2) as usize] += 1;
        }
        assert_eq!((counts[0], counts[2]), (0, 0));
        assert!(counts[1] > 400 && counts[3] > 400);
        let one = Scale::of_warehouses("1").unwrap();
        assert_eq!(one.other_warehouse(&mut rng, 1), 1);
    }
}
