//! The radix tree of byte strings.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use timberline_fuzz::{byte_strings, plant};
use timberline_tree::Art;

fuzz_target!(|bytes: &[u8]| {
    plant();
    let _ = byte_strings::play::<Art<[u8], u64>>(&mut Unstructured::new(bytes));
});
