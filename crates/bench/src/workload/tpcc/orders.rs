//! The content of an order, determined by its number alone.

use super::keys::{Place, Table};
use super::nurand::NuRand;
use super::scale::Scale;
use crate::workload::Rng;

/// The minimum number of lines, less one.
const FEWEST: u64 = 5;
/// Any run of this many orders has each number of lines once.
const CYCLE: u64 = 11;
/// The total of their lines.
const LINES_OF_CYCLE: u64 = CYCLE * FEWEST + CYCLE * (CYCLE - 1) / 2;

/// The number of lines of an order: 5 to 15.
#[inline]
pub fn lines_of(order: u64) -> u64 {
    FEWEST + order * 7 % CYCLE
}

/// The total number of lines of the orders 1, 2, … `order`.
pub fn lines_up_to(order: u64) -> u64 {
    let (cycles, rest) = (order / CYCLE, order % CYCLE);
    cycles * LINES_OF_CYCLE + (1..=rest).map(lines_of).sum::<u64>()
}

/// The order and the line of a district's `nth` line, from 0.
pub fn nth_line(nth: u64) -> (u64, u64) {
    let (mut order, mut rest) = (nth / LINES_OF_CYCLE * CYCLE + 1, nth % LINES_OF_CYCLE);
    while rest >= lines_of(order) {
        rest -= lines_of(order);
        order += 1;
    }
    (order, rest + 1)
}

/// An order line: the item, and its warehouse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub item: u64,
    pub supplier: u64,
}

/// An order; draws its lines one after the other.
pub struct Order<'a> {
    pub customer: u64,
    place: Place,
    scale: &'a Scale,
    rng: Rng,
    left: u64,
}

impl<'a> Order<'a> {
    /// The order with this number in a district.
    pub fn new(scale: &'a Scale, seed: u64, place: Place, order: u64) -> Order<'a> {
        // Its key is no thread's lane.
        let mut rng = Rng::new(seed, place.key(Table::Order, order));
        let customer = match order <= scale.customers {
            true => scale.customer_of(order),
            false => NuRand::CUSTOMER.draw(&mut rng, 1, scale.customers),
        };
        Order {
            customer,
            place,
            scale,
            rng,
            left: lines_of(order),
        }
    }
}

impl Iterator for Order<'_> {
    type Item = Line;

    #[inline]
    fn next(&mut self) -> Option<Line> {
        self.left = self.left.checked_sub(1)?;
        let item = NuRand::ITEM.draw(&mut self.rng, 1, self.scale.items);
        let supplier = match self.rng.below(100) {
            0 => self
                .scale
                .other_warehouse(&mut self.rng, self.place.warehouse),
            _ => self.place.warehouse,
        };
        Some(Line { item, supplier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_lines_is_as_often() {
        let mut counts = [0; 16];
        (1..=3300).for_each(|order| counts[lines_of(order) as usize] += 1);
        assert_eq!(counts[..5], [0; 5]);
        assert_eq!(counts[5..], [300; 11]);
    }

    #[test]
    fn lines_are_counted_through() {
        let mut nth = 0;
        for order in 1..=100 {
            for line in 1..=lines_of(order) {
                assert_eq!(nth_line(nth), (order, line));
                nth += 1;
            }
            assert_eq!(lines_up_to(order), nth);
        }
    }

    #[test]
    fn an_order_is_the_same_whenever_it_is_asked_for_and_another_in_another_district() {
        let scale = Scale::of_warehouses("3").unwrap();
        let lines = |seed, district, order| {
            let warehouse = 2;
            let place = Place {
                warehouse,
                district,
            };
            Order::new(&scale, seed, place, order).collect::<Vec<_>>()
        };
        assert_eq!(lines(1, 1, 3001), lines(1, 1, 3001));
        assert_eq!(lines(1, 1, 3001).len() as u64, lines_of(3001));
        assert_ne!(lines(1, 1, 3001), lines(1, 2, 3001));
        assert_ne!(lines(1, 1, 3001), lines(2, 1, 3001));
    }
}
