//! Options of the command line: any text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timberline_fuzz::texts;

fuzz_target!(|text: &str| texts::options(text));
