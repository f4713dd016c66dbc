//! Writes that take effect together.

use smallvec::SmallVec;

use crate::Expiry;

/// Writes that take effect together, or not at all, also across a crash.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// Keys and values, in order.
    bytes: SmallVec<[u8; 256]>,
    writes: SmallVec<[Write; 4]>,
}

/// A write, whose bytes follow those of the one before.
#[derive(Clone, Debug)]
struct Write {
    /// Where its key ends.
    key: usize,
    /// Where its value ends, and when it expires; a delete has none.
    value: Option<(usize, Expiry)>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_expiring(key, value, Expiry::Never);
    }

    /// Adds a put of a value that expires. A time from now on begins when the batch is written.
    pub fn put_expiring(&mut self, key: &[u8], value: &[u8], expiry: Expiry) {
        self.add(&[key], Some((&[value], expiry)));
    }

    /// Adds a put of a key and a value that are in parts.
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) {
        self.add(key, Some((value, Expiry::Never)));
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(&[key], None);
    }

    fn add(&mut self, key: &[&[u8]], value: Option<(&[&[u8]], Expiry)>) {
        let mut end_of = |parts: &[&[u8]]| {
            parts.iter().for_each(|it| self.bytes.extend_from_slice(it));
            self.bytes.len()
        };
        let key = end_of(key);
        let value = value.map(|(value, expiry)| (end_of(value), expiry));
        self.writes.push(Write { key, value });
    }

    /// Keys, and for puts their values and when these expire.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<(&[u8], Expiry)>)> {
        let mut start = 0;
        self.writes.iter().map(move |it| {
            let key = &self.bytes[start..it.key];
            start = it.value.map_or(it.key, |(end, _)| end);
            let value = it
                .value
                .map(|(end, expiry)| (&self.bytes[it.key..end], expiry));
            (key, value)
        })
    }
}
