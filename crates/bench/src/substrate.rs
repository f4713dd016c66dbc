//! The memory of a benchmark: real or emulated.

use timberline_tier::emulator::Emulated;
use timberline_tier::{Memory, Native, mark};

/// A memory that a benchmark can run on.
pub trait Substrate: Memory {
    /// Whether the slow tier's slowness is emulated.
    const EMULATED: bool;

    /// Switches emulated costs on or off; loading runs without them.
    fn charge(&self, on: bool);

    /// The emulator, if the memory is emulated.
    fn emulated(&self) -> Option<&Emulated> {
        None
    }

    /// Tells an external instrument, if any, that measurement begins or ends.
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

    // The emulator needs no signal: it counts by itself.
    fn measured(&self, _on: bool) {}
}
