//! The radix tree of words, with links of both sizes.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use timberline_fuzz::art_of_words::Map;
use timberline_fuzz::{plant, words};
use timberline_tree::art::{Far, Near};

fuzz_target!(|bytes: &[u8]| {
    plant();
    let mut u = Unstructured::new(bytes);
    let _ = match u.arbitrary::<u8>() {
        Ok(0..=219) => words::play::<Map<Near>>(&mut u),
        Ok(220..) => words::play::<Map<Far>>(&mut u),
        Err(_) => Ok(()),
    };
});
