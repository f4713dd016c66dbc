//! Chunks of a class, and which of them are emptied.

use super::super::classes::class_of;
use super::*;

const MIB: usize = 1 << 20;

/// Chunks of up to 1 MiB, and one of these for `class`: of the last size that is offered and at
/// most `bytes`.
fn with_one(class: usize, bytes: usize) -> Chunks {
    let mut chunks = Chunks::new(MIB, MIB, 2 * MIB);
    grow(&mut chunks, class, bytes);
    chunks
}

fn grow(chunks: &mut Chunks, class: usize, most: usize) -> usize {
    let bytes = chunks.sizes(class).find(|&bytes| bytes <= most).unwrap();
    let offset = chunks.begin(class, bytes).unwrap();
    chunks.add(class, offset, bytes, 0);
    bytes
}

#[test]
fn slots_of_a_chunk_are_in_order_and_come_back() {
    let class = class_of(256);
    let mut chunks = with_one(class, 4096);
    let slots = chunks.take(class, 100);
    assert_eq!(slots, Vec::from_iter((0..16).map(|slot| slot * 256)));
    for &slot in &slots[1..] {
        assert_eq!(chunks.put(class, slot), None);
    }
    let emptied = chunks.put(class, 0);
    assert_eq!(emptied, Some((0, 4096)), "the last one empties the chunk");
    assert_eq!(chunks.take(class, 1), []);
    assert_eq!(chunks.committed().count(), 0);
}

#[test]
fn chunks_with_little_in_them_become_empty() {
    let class = class_of(128);
    let mut chunks = Chunks::new(16 << 10, MIB, 2 * MIB);
    // Of 128 slots each these stay in use.
    let stay = [96, 24, 40, 128, 72, 80, 50];
    for _ in stay {
        grow(&mut chunks, class, usize::MAX);
    }
    let slots = chunks.take(class, 128 * stay.len());
    for (chunk, stays) in stay.into_iter().enumerate() {
        for &slot in &slots[128 * chunk + stays..128 * (chunk + 1)] {
            chunks.put(class, slot);
        }
    }
    // The others have 214 free slots for 64, but not for 50 more without 78 of them and 64 that
    // threads may cache.
    let at = |chunk: usize| (chunk << 14, 16 << 10);
    assert_eq!(chunks.choose_candidates(), [at(1), at(2)]);
    let taken = chunks.take(class, 214);
    let stays = |slot: &usize| [1, 2].contains(&(slot >> 14));
    assert!(!taken.iter().any(stays), "others are asked first");
    let last = chunks.take(class, 1);
    assert!(last.iter().all(stays), "but a slot is a slot");
    for slot in taken {
        chunks.put(class, slot);
    }
    for &slot in last.iter().chain(&slots[128..128 + 24]) {
        chunks.put(class, slot);
    }
    let committed: Vec<_> = chunks.committed().collect();
    assert_eq!(committed, [0, 2, 3, 4, 5, 6].map(at));
    assert_eq!(chunks.choose_candidates(), [at(2)], "chosen anew");
}

#[test]
fn chunks_that_are_nearly_full_become_empty_if_others_have_room() {
    let class = class_of(128);
    let candidates = |used: usize, count: usize| {
        let mut chunks = Chunks::new(16 << 10, MIB, 2 * MIB);
        for _ in 0..count {
            grow(&mut chunks, class, usize::MAX);
        }
        let slots = chunks.take(class, 128 * count);
        for (index, &slot) in slots.iter().enumerate() {
            if index % 128 >= used {
                chunks.put(class, slot);
            }
        }
        chunks.choose_candidates().len()
    };
    // 16 are free in each, and threads may cache 64: 12 chunks have room for one of them.
    assert_eq!([candidates(112, 11), candidates(112, 12)], [0, 1]);
    assert_eq!(candidates(113, 100), 0, "more than seven eighths");
}

#[test]
fn an_evacuation_takes_slots_from_other_chunks_only_until_it_ends() {
    let class = class_of(128);
    let mut chunks = Chunks::new(16 << 10, MIB, 2 * MIB);
    for _ in 0..4 {
        grow(&mut chunks, class, usize::MAX);
    }
    let slots = chunks.take(class, 4 * 128);
    for chunk in 0..4 {
        for &slot in &slots[128 * chunk..128 * chunk + 10 * (1 + chunk)] {
            chunks.put(class, slot);
        }
    }
    let at = |chunk: usize| (chunk << 14, 16 << 10);
    // The last two have the fewest slots in use.
    assert_eq!(chunks.choose_to_evacuate(17 << 10), [at(3), at(2)]);
    assert_eq!(chunks.choose_candidates(), [at(2), at(3)], "they stay");
    let taken = chunks.take(class, 100);
    assert_eq!(taken.len(), 10 + 20);
    assert!(taken.iter().all(|slot| slot >> 14 < 2));
    for &slot in &slots[3 * 128 + 40..] {
        chunks.put(class, slot);
    }
    assert_eq!(chunks.committed().count(), 3, "one is empty, and gone");
    assert_eq!(chunks.choose_to_evacuate(0), []);
    assert_eq!(chunks.take(class, 100).len(), 30, "of the third again");
    assert_eq!(chunks.bypassing(), 0);
}

#[test]
fn a_class_doubles_until_its_chunks_are_whole() {
    let class = class_of(24);
    let mut chunks = Chunks::new(MIB, MIB, 4 * MIB);
    let sizes = [(); 9].map(|()| grow(&mut chunks, class, usize::MAX) >> 10);
    assert_eq!(sizes, [16, 16, 32, 64, 128, 256, 512, 1024, 1024]);
    let other: Vec<_> = chunks.sizes(class_of(48)).collect();
    assert_eq!(other, [16 << 10, 8 << 10, 4 << 10], "each begins small");
    let slots = chunks.take(class, 1 << 18);
    let fitting = |kib: &usize| (kib << 10) / 24;
    assert_eq!(slots.len(), sizes.iter().map(fitting).sum::<usize>());
    for slot in slots {
        chunks.put(class, slot);
    }
    assert_eq!(chunks.committed().count(), 0);
    assert_eq!(grow(&mut chunks, class, usize::MAX), 16 << 10, "afresh");
}

#[test]
fn a_chunk_takes_the_pages_that_its_slots_need() {
    let class = class_of(72 << 10);
    let chunks = Chunks::new(MIB, MIB, 2 * MIB);
    assert_eq!(chunks.sizes(class).collect::<Vec<_>>(), [72 << 10]);
    let chunks = Chunks::new(64 << 10, 128 << 10, 2 * MIB);
    assert_eq!(chunks.sizes(class).collect::<Vec<_>>(), [72 << 10]);
    let mut chunks = with_one(class_of(5 << 10), 1 << 20);
    assert_eq!(chunks.committed().collect::<Vec<_>>(), [(0, 16 << 10)]);
    let slots = chunks.take(class_of(5 << 10), 9);
    assert_eq!(slots, [0, 5 << 10, 10 << 10]);
    grow(&mut chunks, class, MIB);
    assert_eq!(
        chunks.take(class, 9),
        [128 << 10],
        "aligned as a power of two"
    );
    grow(&mut chunks, class_of(64), MIB);
    let committed: Vec<_> = chunks.committed().collect();
    assert_eq!(committed[2], (16 << 10, 16 << 10), "in between");
}

#[test]
#[should_panic(expected = "freed twice")]
fn a_double_free_is_caught() {
    let class = class_of(1024);
    let mut chunks = with_one(class, 4096);
    let slot = chunks.take(class, 2)[0];
    chunks.put(class, slot);
    chunks.put(class, slot);
}

#[test]
#[should_panic(expected = "freed twice")]
fn a_double_free_is_caught_when_the_chunk_is_gone() {
    let class = class_of(1024);
    let mut chunks = with_one(class, 4096);
    let slot = chunks.take(class, 1)[0];
    chunks.put(class, slot);
    chunks.put(class, slot);
}

#[test]
#[should_panic(expected = "of 1024 bytes freed as one of 512")]
fn another_size_is_caught() {
    let mut chunks = with_one(class_of(1024), 4096);
    let slot = chunks.take(class_of(1024), 1)[0];
    chunks.put(class_of(512), slot);
}

#[test]
#[should_panic(expected = "no slot of 1024 bytes starts at 0x8")]
fn an_address_within_a_slot_is_caught() {
    let mut chunks = with_one(class_of(1024), 4096);
    chunks.take(class_of(1024), 1);
    chunks.put(class_of(1024), 8);
}

#[test]
fn about_a_sixteenth_of_a_class_is_on_its_way_at_once() {
    const KIB: usize = 1 << 10;
    let class = class_of(256);
    let mut chunks = Chunks::new(16 * KIB, MIB, 2 * MIB);
    assert!(!chunks.enough_coming(class), "it has none");
    let first = chunks.begin(class, 16 * KIB).unwrap();
    assert!(chunks.enough_coming(class) && chunks.any_coming());
    assert!(!chunks.enough_coming(class_of(512)), "that is another's");
    chunks.give_up(class, first, 16 * KIB);
    assert!(!chunks.enough_coming(class) && !chunks.any_coming());
    for _ in 0..32 {
        grow(&mut chunks, class, 16 * KIB);
    }
    // Two of 32 are a sixteenth, so a third may begin.
    let coming = [(); 3].map(|()| {
        assert!(!chunks.enough_coming(class));
        chunks.begin(class, 16 * KIB).unwrap()
    });
    assert!(chunks.enough_coming(class));
    for offset in coming {
        assert_eq!(chunks.add(class, offset, 16 * KIB, 0), []);
    }
    assert_eq!(chunks.take(class, 36 * 64).len(), 35 * 64);
}

/// A slot of another chunk may come back while the memory of a new one is on its way.
#[test]
fn a_new_chunk_goes_when_its_slots_are_back_though_others_had_free_ones() {
    let class = class_of(256);
    let mut chunks = with_one(class, 4096);
    let held = chunks.take(class, 16);
    let offset = chunks.begin(class, 4096).unwrap();
    for &slot in &held[1..] {
        assert_eq!(chunks.put(class, slot), None);
    }
    let slots = chunks.add(class, offset, 4096, 2);
    assert_eq!(slots, [offset, offset + 256]);
    assert_eq!(chunks.put(class, slots[0]), None);
    assert_eq!(chunks.put(class, slots[1]), Some((offset, 4096)));
}
