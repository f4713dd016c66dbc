//! Bytes from clients of the server, in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timberline_fuzz::commands;

fuzz_target!(|input: (u8, &[u8])| commands::commands(input.0, input.1));
