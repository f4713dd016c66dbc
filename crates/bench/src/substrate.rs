//! The memory that a benchmark runs on: real, or emulated.

use timberline_tier::emulator::Emulated;
use timberline_tier::{Memory, Native};

/// A memory that a benchmark can run on.
pub trait Substrate: Memory {
    /// Whether the slow tier's slowness is emulated.
    const EMULATED: bool;

    /// Switches emulated costs on or off; loading goes without.
    fn charge(&self, on: bool);
}

impl Substrate for Native {
    const EMULATED: bool = false;

    fn charge(&self, _on: bool) {}
}

impl Substrate for Emulated {
    const EMULATED: bool = true;

    fn charge(&self, on: bool) {
        self.set_charging(on);
    }
}
