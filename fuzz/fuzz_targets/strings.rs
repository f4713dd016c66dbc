//! All maps with strings as values, which lie in blocks beside the nodes and move with them.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use timberline_fuzz::btree_of_words::NODE_128;
use timberline_fuzz::values::Encoded;
use timberline_fuzz::{plant, words};
use timberline_tier::Native;
use timberline_tree::art::Near;
use timberline_tree::{Art, BTree, Masstree};

type Strings = Vec<u8>;

fuzz_target!(|bytes: &[u8]| {
    plant();
    let mut u = Unstructured::new(bytes);
    let _ = match u.int_in_range(0..=2) {
        Ok(0) => words::play::<Encoded<BTree<u64, Strings, Native, NODE_128>>>(&mut u),
        Ok(1) => words::play::<Encoded<Art<u64, Strings, Native, Near>>>(&mut u),
        Ok(_) => words::play::<Encoded<Masstree<u64, Strings, Native, NODE_128>>>(&mut u),
        Err(_) => Ok(()),
    };
});
