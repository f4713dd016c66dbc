//! Writes that take effect together.

/// Writes that take effect together, or not at all, also across a crash.
#[derive(Clone, Default, Debug)]
pub struct Batch(pub(crate) Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a put.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.0.push((key.into(), Some(value.into())));
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[u8]) {
        self.0.push((key.into(), None));
    }
}
