//! A page beside a sorted vector, and searches beside naive ones.

use timberline_sync::Restart;

use super::text::print;
use super::{Node, Page, Sought, Text};

type Small = Page<12>;
type Usual = Page<124>;

fn no_blocks(_: u64) -> Result<&'static [u8], Restart> {
    panic!("no key is long")
}

/// Numbers without a pattern.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }

    /// A key that begins with `prefix`, over few letters.
    fn key(&mut self, prefix: &[u8], most: u64) -> Vec<u8> {
        let letters = [0, 1, b'a', b'b', 255];
        let tail = (0..self.below(most + 1)).map(|_| letters[self.below(5) as usize]);
        let tail: Vec<u8> = tail.collect();
        [prefix, &tail].concat()
    }
}

/// The page has these records, and a search for each of these keys finds what a naive one does.
fn agrees<const WORDS: usize>(page: &Page<WORDS>, model: &[(Vec<u8>, u64)], sought: &[Vec<u8>]) {
    assert_eq!(page.count(), model.len());
    let mut key = Vec::new();
    for (index, (expected, payload)) in model.iter().enumerate() {
        page.key(index, &mut key, no_blocks).unwrap();
        assert_eq!((&key, page.payload(index)), (expected, *payload), "{index}");
        assert_eq!(page.print(index), print(expected));
    }
    for key in model.iter().map(|(key, _)| key).chain(sought) {
        let expected = model.binary_search_by(|(other, _)| other.cmp(key));
        assert_eq!(page.rank(key, no_blocks), Ok(expected), "{key:?}");
        let found = page.find(Sought::new(key), no_blocks);
        assert_eq!(found, Ok(expected.ok()), "{key:?}");
    }
}

fn comes_and_goes<const WORDS: usize>(prefix: &[u8], upper: Option<&[u8]>, most: u64) {
    let node = Node::new(Page::<WORDS>::default());
    let page = node.lock().unwrap();
    page.reset(0, 1, Text::new(prefix), upper.map(Text::new));
    let (mut model, mut draw) = (Vec::<(Vec<u8>, u64)>::new(), Draw(7));
    for payload in 0..3_000 {
        let key = draw.key(prefix, most);
        let place = model.binary_search_by(|(other, _)| other.cmp(&key));
        // Fills up, and empties again.
        let removes = draw.below(10) < if payload / 300 % 2 == 0 { 2 } else { 8 };
        match place {
            Ok(index) if removes => {
                page.remove(index);
                model.remove(index);
            }
            Ok(index) => {
                page.set_payload(index, payload);
                model[index].1 = payload;
            }
            Err(index) if page.has_room_for(&key) && !removes => {
                page.insert(index, print(&key), Text::new(&key), payload);
                model.insert(index, (key, payload));
            }
            Err(_) => {}
        }
        if payload % 50 == 0 {
            let sought: Vec<_> = (0..20).map(|_| draw.key(prefix, most)).collect();
            agrees(&page, &model, &sought);
        }
    }
    let mut fence = Vec::new();
    page.lower(&mut fence, no_blocks).unwrap();
    assert_eq!(fence, prefix);
    let is_there = page.upper(&mut fence, no_blocks).unwrap();
    assert_eq!(is_there.then_some(&fence[..]), upper);
}

#[test]
fn a_page_agrees_with_a_sorted_vector() {
    comes_and_goes::<12>(b"", None, 10);
    comes_and_goes::<12>(b"in/common/", Some(b"in/common0"), 6);
    comes_and_goes::<124>(b"", None, 40);
    comes_and_goes::<124>(b"in/common/", Some(b"in/common0"), 6);
}

/// Children whose keys begin alike, but for the first one's and now and then another's; one key is
/// in a block, when it is there. Some arrive, some go, and all move to another page at times.
fn children_come_and_go<const WORDS: usize>(stem: &[u8], most: u64, seed: u64) {
    let (node, other) = (
        Node::new(Page::<WORDS>::default()),
        Node::new(Page::<WORDS>::default()),
    );
    let (mut page, mut spare) = (node.lock().unwrap(), other.lock().unwrap());
    page.reset(1, 1, Text::new(&[]), None);
    page.insert(0, 0, Text::new(&[]), 0);
    let (mut model, mut draw, mut skipped) = (vec![Vec::new()], Draw(seed), 0);
    let long: &[u8] = [stem, &[b'b'; 250]].concat().leak();
    let open = |_| Ok(long);
    for step in 0..4_000u64 {
        let key = match draw.below(80) {
            0 => long.to_vec(),
            1 | 2 => draw.key(b"", most),
            _ => draw.key(stem, most),
        };
        let block = if key == long { 8 } else { 0 };
        match model.binary_search(&key) {
            Ok(index) if index > 0 && draw.below(3) == 0 => {
                page.remove(index);
                model.remove(index);
            }
            Err(index) if page.has_room_for(&key) => {
                let text = Text { bytes: &key, block };
                page.insert(index, 0, text, step);
                model.insert(index, key);
            }
            Err(_) if model.len() > 2 => {
                let gone = 1 + draw.below(model.len() as u64 - 1) as usize;
                page.remove(gone);
                model.remove(gone);
            }
            _ => {}
        }
        if step % 64 == 0 {
            spare.reset(1, 1, Text::new(&[]), None);
            spare.append_as_they_are(&page, 0..page.count());
            spare.place_heads();
            std::mem::swap(&mut page, &mut spare);
        }
        assert_eq!(page.count(), model.len());
        let skip = page.fences().skip;
        assert!(
            model[1..]
                .windows(2)
                .all(|two| two[0][..skip] == two[1][..skip])
        );
        skipped += u64::from(skip > 0);
        let mut key = Vec::new();
        for (index, expected) in model.iter().enumerate().skip(1) {
            page.key(index, &mut key, open).unwrap();
            assert_eq!(&key, expected);
            assert_eq!(page.rank(expected, open), Ok(Ok(index)));
        }
        for _ in 0..8 {
            let (any, like) = (draw.key(b"", most), draw.key(stem, most));
            for sought in [any, like] {
                let expected = model[1..].binary_search(&sought);
                let expected = expected.map(|at| at + 1).map_err(|at| at + 1);
                assert_eq!(page.rank(&sought, open), Ok(expected), "{sought:?}");
            }
        }
    }
    assert!(stem.is_empty() || skipped > 100, "{skipped}");
}

#[test]
fn children_agree_with_a_sorted_vector() {
    children_come_and_go::<12>(b"", 10, 1);
    children_come_and_go::<12>(b"user:", 10, 2);
    children_come_and_go::<12>(b"key:0000000", 4, 3);
    children_come_and_go::<28>(b"key:0000000", 12, 4);
    children_come_and_go::<124>(b"https://example.org/", 20, 5);
}

/// However long its keys and fences are.
#[test]
fn a_page_holds_five_records_or_four_children() {
    fn holds<const WORDS: usize>(height: u8, entries: u8) {
        let inline = Page::<WORDS>::INLINE;
        let node = Node::new(Page::<WORDS>::default());
        let page = node.lock().unwrap();
        let (lower, upper) = (vec![b'a'; inline], vec![b'b'; inline]);
        page.reset(height, 1, Text::new(&lower), Some(Text::new(&upper)));
        for last in 0..entries {
            let mut key = vec![b'a'; inline];
            key[inline - 1] += last;
            assert!(page.has_room_for(&key), "{last}");
            page.insert(last.into(), 0, Text::new(&key), 0);
        }
        assert_eq!(page.count(), usize::from(entries));
    }
    for (height, entries) in [(0, 5), (1, 4)] {
        holds::<12>(height, entries);
        holds::<28>(height, entries);
        holds::<124>(height, entries);
        holds::<508>(height, entries);
    }
}

#[test]
fn sizes_are_powers_of_two() {
    assert_eq!((Small::BYTES, Usual::BYTES), (256, 2_048));
    assert_eq!((Small::INLINE, Usual::INLINE), (16, 128));
    assert_eq!(size_of::<Node<12>>(), 256);
}

/// Whatever words a page has, reading it ends, and reads nothing else.
#[test]
fn any_words_can_be_read() {
    let (node, mut draw) = (Node::new(Small::default()), Draw(3));
    let page = node.lock().unwrap();
    let open = |_: u64| Err(Restart);
    let (mut text, mut any) = (Vec::new(), || {
        draw.below(1 << 31) << 33 | draw.below(1 << 31)
    });
    for round in 0..3_000 {
        page.height
            .store(round % 2, std::sync::atomic::Ordering::Relaxed);
        for index in 0..Small::LEN {
            page.set_word(index, any());
        }
        page.shape
            .store(any(), std::sync::atomic::Ordering::Relaxed);
        page.fences
            .store(any(), std::sync::atomic::Ordering::Relaxed);
        let key = any().to_be_bytes();
        _ = page.find(Sought::new(&key), open);
        _ = page.rank(&key, open);
        _ = page.seems_at(Sought::new(&key));
        _ = (page.has_room_for(&key), page.is_underfull(), page.half());
        _ = (page.lower(&mut text, open), page.upper(&mut text, open));
        for index in 0..page.count().min(40) {
            _ = page.key(index, &mut text, open);
            _ = (
                page.places(index),
                page.payload(index),
                page.block_of(index),
            );
        }
        _ = page.heap_of(0..page.count(), 5);
    }
}
