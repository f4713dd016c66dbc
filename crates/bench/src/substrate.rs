//! The memory that a benchmark runs on: real, or emulated.

use timberline_tier::emulator::Emulated;
use timberline_tier::{Memory, Native, mark};

/// A memory that a benchmark can run on.
pub trait Substrate: Memory {
    /// Whether the slow tier's slowness is emulated.
    const EMULATED: bool;

    /// Switches emulated costs on or off; loading goes without.
    fn charge(&self, on: bool);

    /// The emulator, if it is one.
    fn emulated(&self) -> Option<&Emulated> {
        None
    }

    /// Tells an instrument outside, if there is one, that what is measured begins or ends.
    fn measured(&self, on: bool);
}

impl Substrate for Native {
    const EMULATED: bool = false;

    fn charge(&self, _on: bool) {}

    fn measured(&self, on: bool) {
        match on {
            true => mark::begin(self.arenas().range()),
            false => mark::end(),
        }
    }
}

impl Substrate for Emulated {
    const EMULATED: bool = true;

    fn charge(&self, on: bool) {
        self.set_charging(on);
    }

    fn emulated(&self) -> Option<&Emulated> {
        Some(self)
    }

    // It counts itself.
    fn measured(&self, _on: bool) {}
}
