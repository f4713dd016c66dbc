//! Writes that take effect together.

use crate::Expiry;

/// Writes that take effect together, or not at all, also across a crash.
#[derive(Clone, Default, Debug)]
pub struct Batch(pub(crate) Vec<(Vec<u8>, Option<Put>)>);

/// A value, and when it expires.
pub(crate) type Put = (Vec<u8>, Expiry);

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
        self.0.push((key.into(), Some((value.into(), expiry))));
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[u8]) {
        self.0.push((key.into(), None));
    }
}
