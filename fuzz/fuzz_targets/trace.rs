//! Traces: any bytes, in any format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timberline_fuzz::texts;

fuzz_target!(|input: (u8, &[u8])| texts::trace(input.0, input.1));
