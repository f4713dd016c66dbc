//! Entries that go to a page together, behind those that are there: another page's, which splits,
//! sharing and merges are made of, or ascending records.

use std::ops::Range;

use timberline_tier::Memory;

use super::text::{head, print};
use super::write::Pen;
use super::{HEAD, LONG, LONG_BYTES, LockedNode, Long, LongKeys, Page, Shape, Text, slots};

/// More than the most bytes of a key in a page, read eight at a time.
const BUFFER: usize = 256 + 8;

/// How the part of a key that a page has changes with the page's prefix.
struct Change {
    /// What it begins with, where the prefix is shorter.
    gained: Vec<u8>,
    /// How many bytes it loses, where the prefix is longer.
    lost: usize,
}

impl Change {
    /// The length of a part that had this one.
    fn len(&self, before: usize) -> usize {
        self.gained.len() + before - self.lost
    }
}

/// Entries that are appended to a page: all arrays and the heap are written from one end to the
/// other, so the first entry's bytes lie lowest.
struct Rows<'p, const WORDS: usize> {
    page: &'p Page<WORDS>,
    shape: Shape,
    prints: Pen<'p, WORDS>,
    offsets: Pen<'p, WORDS>,
    heads: Pen<'p, WORDS>,
    /// Each entry's bytes, which are written before the entry is pushed.
    texts: Pen<'p, WORDS>,
    /// Where the next of them lie.
    at: usize,
}

impl<'p, const WORDS: usize> Rows<'p, WORDS> {
    /// So many entries, which take so many bytes of the heap. There is room for them.
    fn begin(page: &'p Page<WORDS>, entries: usize, bytes: usize) -> Self {
        let mut shape = page.room(entries, bytes);
        shape.heap -= bytes;
        let Shape {
            count, cap, heap, ..
        } = shape;
        Rows {
            page,
            shape,
            prints: Pen::at(page, count),
            offsets: Pen::at(page, cap + 2 * count),
            heads: Pen::at(page, 3 * cap + 4 * count),
            texts: Pen::at(page, heap),
            at: heap,
        }
    }

    /// The next entry, which takes so many bytes of the heap.
    #[inline(always)]
    fn push(&mut self, bytes: usize, print: u8, head: u32, payload: u64) {
        self.prints.push(print.into(), 8);
        self.offsets.push(self.at as u64, 16);
        self.heads.push(head.into(), 32);
        let Shape { count, cap, .. } = self.shape;
        self.page.set_word(cap / 8 * 7 + count, payload);
        self.shape.count += 1;
        self.at += bytes;
    }

    /// The same of one whose key is this, without the prefix, and in no block.
    #[inline(always)]
    fn push_text(&mut self, rest: &[u8], in_head: usize, print: u8, payload: u64) {
        self.texts.push(rest.len() as u64, 8);
        self.texts.push_bytes(rest.get(in_head..).unwrap_or(&[]));
        let bytes = Page::<WORDS>::heap_without(in_head, rest.len());
        self.push(bytes, print, head(rest, 0), payload);
    }

    fn end(self) {
        for pen in [self.prints, self.offsets, self.heads, self.texts] {
            pen.finish();
        }
        self.page.set_shape(self.shape);
    }
}

impl<const WORDS: usize> Page<WORDS> {
    /// Appends entries of another page. Keys that were in blocks and fit this page leave them;
    /// those that do not fit this page have a block among `keys`, the last one first.
    pub(super) fn append(
        &self,
        from: &LockedNode<'_, WORDS>,
        entries: Range<usize>,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) {
        let (fences, prefix) = (from.fences(), self.fences().prefix);
        if entries.is_empty() {
            return;
        }
        if fences.prefix == prefix {
            self.append_as_they_are(from, entries);
            return self.place_heads();
        }
        let mut before = Vec::new();
        let open = Long(memory).in_locked(from);
        let read = from.push_fence(fences.lower, fences.prefix, &mut before, &open);
        read.expect("a locked node does not change");
        let change = Change {
            gained: before.get(prefix..).unwrap_or(&[]).to_vec(),
            lost: prefix.saturating_sub(fences.prefix),
        };
        match from.heap_without_blocks(entries.clone(), &change) {
            Some(bytes) => self.append_inline(from, entries, &change, bytes),
            None => self.append_one_by_one(from, entries, &change, keys, memory),
        }
        self.place_heads();
    }

    /// Appends ascending records, as many as there is room for in front of one whose key needs a
    /// block. They belong behind all that are there. Returns how many.
    pub fn append_records<'k>(
        leaf: &LockedNode<'_, WORDS>,
        records: impl Iterator<Item = (&'k [u8], u64)> + Clone,
    ) -> usize {
        debug_assert_eq!(leaf.height(), 0, "its payloads are links");
        let prefix = leaf.fences().prefix;
        let (there, room) = (leaf.count(), Self::AREA - leaf.heap_in_use());
        let (mut bytes, mut entries) = (0, 0);
        for (key, _) in records.clone() {
            let rest = key.len() - prefix;
            let more = bytes + Self::heap_for_record(rest);
            if rest > Self::INLINE || slots(there + entries + 1) + more > room {
                break;
            }
            (entries, bytes) = (entries + 1, more);
        }
        if entries > 0 {
            let mut rows = Rows::begin(leaf, entries, bytes);
            for (key, value) in records.take(entries) {
                rows.push_text(&key[prefix..], HEAD, print(key), value);
            }
            rows.end();
        }
        entries
    }

    /// Appends entries of a page with the same prefix. Heads stay as they are, so in an inner node
    /// whose skip is another they are to be placed then ([`place_heads`](Self::place_heads)).
    pub(super) fn append_as_they_are(&self, from: &Self, entries: Range<usize>) {
        let cap = from.shape().cap;
        let bytes = |index| from.entry_bytes_at(from.offset(cap, index));
        let bytes = entries.clone().map(bytes).sum();
        let mut rows = Rows::begin(self, entries.len(), bytes);
        for index in entries {
            let at = from.offset(cap, index);
            let bytes = from.entry_bytes_at(at);
            rows.texts.push_from(from, at, bytes);
            let (print, head) = (from.print(index), from.head(cap, index));
            rows.push(bytes, print, head, from.payload_of(cap, index));
        }
        rows.end();
    }

    /// Bytes of the heap that some entries take then; `None` if a key is or comes to be in a block.
    fn heap_without_blocks(&self, entries: Range<usize>, change: &Change) -> Option<usize> {
        let cap = self.shape().cap;
        let mut bytes = 0;
        for index in entries {
            let len = match self.tag(self.offset(cap, index)) {
                LONG => return None,
                len => change.len(len.into()),
            };
            if len > Self::INLINE {
                return None;
            }
            bytes += self.heap_for(len);
        }
        Some(bytes)
    }

    /// Appends entries whose keys are in no blocks, and take so many bytes of the heap here.
    fn append_inline(&self, from: &Self, entries: Range<usize>, change: &Change, bytes: usize) {
        let cap = from.shape().cap;
        let mut rows = Rows::begin(self, entries.len(), bytes);
        let (mut buffer, gained, in_head) = ([0; BUFFER], change.gained.len(), self.in_head());
        buffer[..gained].copy_from_slice(&change.gained);
        for index in entries {
            let at = from.offset(cap, index);
            let len = from.tag(at).into();
            from.copy_rest(at, len, from.head(cap, index), &mut buffer[gained..]);
            let rest = &buffer[change.lost..][..change.len(len)];
            let (print, payload) = (from.print(index), from.payload_of(cap, index));
            rows.push_text(rest, in_head, print, payload);
        }
        rows.end();
    }

    /// Copies a key without the prefix, that is in no block, and maybe some bytes behind it.
    fn copy_rest(&self, at: usize, len: usize, head: u32, to: &mut [u8]) {
        to[..HEAD].copy_from_slice(&head.to_be_bytes());
        let in_head = self.in_head();
        let mut done = in_head;
        while done < len {
            let eight = self.eight(at + 1 + done - in_head).to_le_bytes();
            to[done..done + 8].copy_from_slice(&eight);
            done += 8;
        }
    }

    fn append_one_by_one(
        &self,
        from: &LockedNode<'_, WORDS>,
        entries: Range<usize>,
        change: &Change,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) {
        let open = Long(memory).in_locked(from);
        let prefix = self.fences().prefix;
        let mut rest = Vec::with_capacity(Self::INLINE + LONG_BYTES);
        for index in entries {
            rest.clear();
            rest.extend_from_slice(&change.gained);
            let mut block = from.push_rest(index, &mut rest);
            let rest = match block {
                0 => &rest[change.lost..],
                _ => &open(block).expect("a locked node does not change")[prefix..],
            };
            if block == 0 && rest.len() > Self::INLINE {
                block = keys.next_block();
            }
            let (print, payload) = (from.print(index), from.payload(index));
            if !self.insert_rest(self.count(), print, Text { bytes: rest, block }, payload) {
                keys.drop_block(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Node;
    use super::*;
    use crate::key::common;

    type Usual = Page<124>;

    /// An empty page between two fences.
    fn page(lower: &[u8], upper: &[u8]) -> Usual {
        let page = Usual::default();
        page.reset(0, 1, Text::new(lower), Some(Text::new(upper)));
        page
    }

    fn keys(page: &Usual) -> Vec<(Vec<u8>, u8, u64)> {
        let key = |index| {
            let mut key = Vec::new();
            let read = page.key(index, &mut key, |_| panic!("no key is long"));
            read.expect("nothing changes");
            (key, page.print(index), page.payload(index))
        };
        (0..page.count()).map(key).collect()
    }

    /// Whatever becomes of the prefix, and wherever the words of both pages begin.
    #[test]
    fn entries_arrive_as_they_were() {
        let fences: [(&[u8], &[u8]); 4] = [
            (b"", b"z"),
            (b"com", b"cop"),
            (b"common/", b"common0"),
            (b"common/prefix/", b"common/prefix0"),
        ];
        let tails = (0..24).map(|n| vec![b'a'; n * 5 % 23]);
        let tails: Vec<Vec<u8>> = tails.chain([vec![b'b'; 100]]).collect();
        let mut all: Vec<Vec<u8>> = tails
            .iter()
            .map(|tail| [b"common/prefix/", &tail[..]].concat())
            .collect();
        all.sort();
        all.dedup();
        for (lower, upper) in fences {
            let from = page(lower, upper);
            for (key, payload) in all.iter().zip(1..) {
                from.insert(from.count(), print(key), Text::new(key), payload);
            }
            let whole = keys(&from);
            assert_eq!(whole.len(), all.len());
            for (lower_to, upper_to) in fences {
                let prefix = common(lower_to, upper_to);
                let change = Change {
                    gained: lower
                        .get(prefix..common(lower, upper))
                        .unwrap_or(&[])
                        .to_vec(),
                    lost: prefix.saturating_sub(common(lower, upper)),
                };
                for cut in 0..=all.len() {
                    let to = page(lower_to, upper_to);
                    for part in [0..cut, cut..all.len()] {
                        let bytes = from.heap_without_blocks(part.clone(), &change);
                        let bytes = bytes.expect("no key is long");
                        assert_eq!(Some(bytes), from.heap_of(part.clone(), prefix));
                        match prefix == common(lower, upper) {
                            true => to.append_as_they_are(&from, part),
                            false => to.append_inline(&from, part, &change, bytes),
                        }
                    }
                    assert_eq!(keys(&to), whole);
                    let heap = bytes_of_heap(&to);
                    assert_eq!(to.shape().heap + heap, Usual::AREA);
                }
            }
        }
    }

    /// As many as if they were inserted one by one, and the same, up to one that needs a block.
    #[test]
    fn records_are_appended_until_there_is_no_room() {
        let key = |n: usize| {
            [
                &b"common/"[..],
                &(n as u16).to_be_bytes(),
                &vec![b'k'; n * 7 % 19],
            ]
            .concat()
        };
        for (there, gone) in [(0, 0), (1, 0), (20, 7), (60, 60), (200, 0)] {
            for long in [3, 70, 200] {
                let node = Node::new(page(b"common/", b"common0"));
                let (leaf, one_by_one) = (node.lock().unwrap(), page(b"common/", b"common0"));
                let insert = |page: &Usual, n: usize| {
                    let key = key(n);
                    let fits = page.has_room_for(&key);
                    if fits {
                        page.insert(page.count(), print(&key), Text::new(&key), n as u64);
                    }
                    fits
                };
                for page in [&*leaf, &one_by_one] {
                    (0..there).take_while(|&n| insert(page, n)).count();
                    (0..gone.min(page.count())).for_each(|_| page.remove(0));
                }
                let longest = [key(there + long), vec![b'l'; Usual::INLINE + 1]].concat();
                let records: Vec<_> = (there..there + long).map(|n| (key(n), n as u64)).collect();
                let all = records.iter().map(|(key, n)| (&key[..], *n));
                let all = all.chain([(&longest[..], 0)]);
                let appended = Page::append_records(&leaf, all);
                let expected = (there..there + long).take_while(|&n| insert(&one_by_one, n));
                assert_eq!(appended, expected.count());
                assert_eq!(keys(&leaf), keys(&one_by_one));
            }
        }
    }

    /// Those that its entries and fences take.
    fn bytes_of_heap(page: &Usual) -> usize {
        page.live() - page.count() * super::super::SLOT
    }
}
