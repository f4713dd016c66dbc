//! The B+tree of words, in nodes of three sizes.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use timberline_fuzz::btree_of_words::{Map, NODE_128};
use timberline_fuzz::{plant, words};
use timberline_tree::btree::{NODE_1K, NODE_256};

fuzz_target!(|bytes: &[u8]| {
    plant();
    let mut u = Unstructured::new(bytes);
    let _ = match u.arbitrary::<u8>() {
        Ok(0..=149) => words::play::<Map<NODE_128>>(&mut u),
        Ok(150..=219) => words::play::<Map<NODE_256>>(&mut u),
        Ok(220..) => words::play::<Map<NODE_1K>>(&mut u),
        Err(_) => Ok(()),
    };
});
