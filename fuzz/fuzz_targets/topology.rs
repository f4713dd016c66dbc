//! The kernel's description of a machine: any bytes in any two of its files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timberline_fuzz::texts;

fuzz_target!(|input: (u16, &[u8])| texts::topology(input.0, input.1));
