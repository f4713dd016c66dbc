//! Sampled accesses of pages and of huge pages, and which pages are part of huge ones.
//!
//! A sample of a base page counts for as many as a huge page has pages, so that both kinds are
//! measured by accesses for a byte (the paper's compensation of hotness factors).

use std::ops::Range;

use super::histogram::{Histogram, bin};
use crate::pages::PageTable;

/// The content of an aligned address range of a huge page's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nothing yet.
    Absent,
    /// One huge page.
    Huge,
    /// Base pages.
    Split,
}

/// The granularity of a move: a huge page, by its unit, or a base page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    Huge(usize),
    Base(usize),
}

pub struct Heat {
    /// Pages in a unit.
    width: usize,
    pages: Vec<u32>,
    units: Vec<(Unit, u32)>,
}

impl Heat {
    /// For this many pages, with no accesses, in units of `width`.
    pub fn new(pages: usize, width: usize) -> Heat {
        Heat {
            width,
            pages: vec![0; pages],
            units: vec![(Unit::Absent, 0); pages.div_ceil(width)],
        }
    }

    pub fn unit_of(&self, page: usize) -> usize {
        page / self.width
    }

    pub fn pages_of(&self, unit: usize) -> Range<usize> {
        let start = unit * self.width;
        start..(start + self.width).min(self.pages.len())
    }

    pub fn unit(&self, unit: usize) -> Unit {
        self.units[unit].0
    }

    pub fn set_unit(&mut self, unit: usize, is: Unit) {
        self.units[unit].0 = is;
    }

    pub fn sample(&mut self, page: usize) {
        self.pages[page] = self.pages[page].saturating_add(self.width as u32);
        let unit = self.unit_of(page);
        self.units[unit].1 = self.units[unit].1.saturating_add(1);
    }

    /// Halves all counts.
    pub fn cool(&mut self) {
        self.pages.iter_mut().for_each(|count| *count /= 2);
        self.units.iter_mut().for_each(|(_, count)| *count /= 2);
    }

    /// The bin of a page, as if it were a base page.
    pub fn page_bin(&self, page: usize) -> usize {
        bin(self.pages[page])
    }

    pub fn count(&self, piece: Piece) -> u32 {
        match piece {
            Piece::Huge(unit) => self.units[unit].1,
            Piece::Base(page) => self.pages[page],
        }
    }

    /// The pages of a piece.
    pub fn range(&self, piece: Piece) -> Range<usize> {
        match piece {
            Piece::Huge(unit) => self.pages_of(unit),
            Piece::Base(page) => page..page + 1,
        }
    }

    /// The units that are huge pages.
    pub fn huge(&self) -> impl Iterator<Item = usize> {
        (0..self.units.len()).filter(|&unit| self.unit(unit) == Unit::Huge)
    }

    /// All that can be moved.
    pub fn pieces(&self, table: &PageTable) -> Vec<Piece> {
        let is_base = |&page: &usize| self.unit(self.unit_of(page)) == Unit::Split;
        let base = table.in_use().iter().copied().filter(is_base);
        self.huge()
            .map(Piece::Huge)
            .chain(base.map(Piece::Base))
            .collect()
    }

    /// The histogram of movable pieces, and that of all base pages as if none were part of a huge
    /// one.
    pub fn histograms(&self, table: &PageTable) -> (Histogram, Histogram) {
        let (mut real, mut base) = (Histogram::default(), Histogram::default());
        for piece in self.pieces(table) {
            real.add(self.count(piece), self.range(piece).len());
        }
        for &page in table.in_use() {
            base.add(self.pages[page], 1);
        }
        (real, base)
    }

    /// How unevenly a huge page's accesses are spread: the sum of the squares of its pages' counts,
    /// over the square of how many are hot (of base bin `hot` or more). 0 where none is.
    pub fn skewness(&self, unit: usize, hot: usize) -> f64 {
        let pages = self.pages_of(unit);
        let hot = pages.clone().filter(|&page| self.page_bin(page) >= hot);
        let hot = hot.count() as f64;
        let squares = self.pages[pages]
            .iter()
            .map(|&count| f64::from(count).powi(2));
        if hot == 0.0 {
            0.0
        } else {
            squares.sum::<f64>() / (hot * hot)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of four pages: eight samples on one page, or two on each.
    #[test]
    fn skewness_tells_one_hot_page_from_four_warm_ones() {
        let mut heat = Heat::new(8, 4);
        for nth in 0..8 {
            heat.sample(0);
            heat.sample(4 + nth % 4);
        }
        assert_eq!(heat.count(Piece::Huge(0)), heat.count(Piece::Huge(1)));
        assert_eq!(heat.count(Piece::Base(0)), 8 * 4);
        assert_eq!(heat.skewness(0, 1), (32.0 * 32.0) / 1.0);
        assert_eq!(heat.skewness(1, 1), (4.0 * 8.0 * 8.0) / 16.0);
        assert_eq!(heat.skewness(1, 15), 0.0);
        heat.cool();
        assert_eq!(heat.count(Piece::Huge(0)), 4);
        assert_eq!(heat.count(Piece::Base(0)), 16);
    }
}
