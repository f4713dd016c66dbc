//! What explains an order that is not the published one.

/// SIDLE's five workers share two cores with the requests.
pub const WORKERS: &str = "";
/// Random migration is cheap where nodes are small.
pub const RANDOM: &str = "";
