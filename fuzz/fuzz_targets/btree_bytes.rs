//! The B+tree of byte strings, in nodes of two sizes.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use timberline_fuzz::btree_of_bytes::NODE_128;
use timberline_fuzz::{byte_strings, plant};
use timberline_tier::Native;
use timberline_tree::BTree;
use timberline_tree::btree::NODE_1K;

fuzz_target!(|bytes: &[u8]| {
    plant();
    let mut u = Unstructured::new(bytes);
    let _ = match u.arbitrary() {
        Ok(true) => byte_strings::play::<BTree<[u8], u64, Native, NODE_128>>(&mut u),
        Ok(false) => byte_strings::play::<BTree<[u8], u64, Native, NODE_1K>>(&mut u),
        Err(_) => Ok(()),
    };
});
