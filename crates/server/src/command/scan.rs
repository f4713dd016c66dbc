//! Listing keys.
//!
//! Keys are listed in their order. Clients expect a cursor to be a number, so the server remembers
//! for each cursor the key that it stands behind; a bounded number of them, and of bytes, the
//! oldest go first.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Call, Done, Failure, matches};
use crate::keyspace::{Elements, Entry};
use crate::memory::{Held, Memory, OVERHEAD, Room};

/// Cursors that are remembered.
const CURSORS: usize = 16 << 10;
/// One part in so many of the memory is theirs.
const SHARE: u64 = 64;

/// Cursors of scans under way.
pub(crate) struct Cursors {
    memory: Arc<Memory>,
    state: Mutex<State>,
}

struct State {
    /// Where each cursor stands, the oldest first.
    places: VecDeque<(u64, Vec<u8>)>,
    last: u64,
    room: Room,
}

impl Cursors {
    pub fn new(memory: &Arc<Memory>) -> Cursors {
        Cursors {
            memory: Arc::clone(memory),
            state: Mutex::new(State {
                places: VecDeque::new(),
                last: 0,
                room: Room::new(memory),
            }),
        }
    }

    /// A new cursor.
    pub fn put(&self, mut place: Vec<u8>) -> u64 {
        place.shrink_to_fit();
        let most = self.memory.limit.load(Relaxed) / SHARE;
        let mut state = self.lock();
        let mut bytes = state.room.bytes() + place.len() + OVERHEAD;
        while (state.places.len() >= CURSORS || bytes as u64 > most)
            && let Some((_, oldest)) = state.places.pop_front()
        {
            bytes -= oldest.len() + OVERHEAD;
        }
        state.room.resize(bytes);
        state.last += 1;
        let cursor = state.last;
        state.places.push_back((cursor, place));
        cursor
    }

    /// Where a cursor stands. It can be used again.
    pub fn get(&self, cursor: u64) -> Option<Vec<u8>> {
        let state = self.lock();
        let at = state.places.binary_search_by_key(&cursor, |it| it.0).ok()?;
        Some(state.places[at].1.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// The options `MATCH` and `COUNT` of all scans.
pub(super) struct Options<'a> {
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
    pub kind: Option<&'a [u8]>,
}

/// Reads the options from this argument on.
pub(super) fn options<'a>(
    call: &Call<'a>,
    from: usize,
    with_type: bool,
) -> Result<Options<'a>, Failure> {
    let mut options = Options {
        pattern: None,
        count: 10,
        kind: None,
    };
    let mut at = from;
    while at < call.args.len() {
        if at + 1 == call.args.len() {
            return Err(Failure::SYNTAX);
        }
        if call.is(at, "match") {
            options.pattern = Some(call.arg(at + 1));
        } else if call.is(at, "count") {
            let count = call.integer(at + 1)?;
            if count < 1 {
                return Err(Failure::SYNTAX);
            }
            options.count = count.min(1 << 20) as usize;
        } else if with_type && call.is(at, "type") {
            options.kind = Some(call.arg(at + 1));
        } else {
            return Err(Failure::SYNTAX);
        }
        at += 2;
    }
    options.pattern = options.pattern.filter(|it| *it != b"*");
    Ok(options)
}

pub(super) async fn scan(call: &mut Call<'_>) -> Done {
    let place = place(call, 1)?.unwrap_or_default();
    let options = options(call, 2, true)?;
    let mut listed = Vec::new();
    let mut last = None;
    let mut keys = call.keyspace().keys(&place);
    for key in keys.by_ref().take(options.count) {
        if options.pattern.is_none_or(|it| matches(it, &key[1..]))
            && let Some(entry) = call.keyspace().look(&key[1..], key[0], call.now).await?
            && options.kind.is_none_or(|it| is_kind(&entry, it))
        {
            call.held.keep(key.len())?;
            listed.push(key[1..].to_vec());
        }
        last = Some(key);
    }
    let next = match (keys.next(), last) {
        (Some(_), Some(last)) => call.shared.cursors.put(last),
        _ => 0,
    };
    reply(call, next, &listed)
}

pub(super) fn is_kind(entry: &Entry, name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(entry.kind.name().as_bytes())
}

pub(super) async fn keys(call: &mut Call<'_>) -> Done {
    let pattern = call.arg(1);
    let mut listed = Vec::new();
    for key in call.keyspace().keys(&[]) {
        if matches(pattern, &key[1..])
            && call
                .keyspace()
                .look(&key[1..], key[0], call.now)
                .await?
                .is_some()
        {
            call.held.keep(key.len())?;
            listed.push(key);
        }
    }
    call.out.array(listed.len());
    for key in &listed {
        call.out.bulk(&key[1..]);
    }
    Ok(())
}

pub(super) async fn randomkey(call: &mut Call<'_>) -> Done {
    // Expired keys are passed over, up to a number that keeps the command short.
    for _ in 0..100 {
        let Some(key) = call.keyspace().random_key() else {
            break;
        };
        if call
            .keyspace()
            .look(&key[1..], key[0], call.now)
            .await?
            .is_some()
        {
            call.out.bulk(&key[1..]);
            return Ok(());
        }
    }
    call.out.null();
    Ok(())
}

/// Where a scan of elements goes on: behind a name, or at the start.
pub(super) fn place(call: &Call, at: usize) -> Result<Option<Vec<u8>>, Failure> {
    let digits = std::str::from_utf8(call.arg(at)).ok();
    let cursor: Option<u64> = digits.and_then(|it| it.parse().ok());
    let place = match cursor {
        Some(0) => return Ok(None),
        Some(cursor) => call.shared.cursors.get(cursor),
        None => None,
    };
    place.map(Some).ok_or(Failure::fixed("ERR invalid cursor"))
}

/// The next elements of a scan, and its cursor after them.
pub(super) async fn page(
    call: &Call<'_>,
    mut elements: Elements<'_>,
    options: &Options<'_>,
) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, u64), Failure> {
    let mut listed = Vec::new();
    while listed.len() < options.count
        && let Some(element) = elements.next().await?
    {
        call.held.keep(element.0.len() + element.1.len())?;
        listed.push(element);
    }
    let next = match (elements.next().await?, listed.last()) {
        (Some(_), Some((last, _))) => call.shared.cursors.put(last.clone()),
        _ => 0,
    };
    Ok((listed, next))
}

/// The reply of a scan.
pub(super) fn reply(call: &mut Call, next: u64, values: &[Vec<u8>]) -> Done {
    call.out.array(2);
    call.out.bulk(next.to_string().as_bytes());
    call.out.array(values.len());
    for value in values {
        call.out.bulk(value);
    }
    Ok(())
}

/// The reply of a scan over a key that is not there.
pub(super) fn nothing(call: &mut Call) -> Done {
    reply(call, 0, &[])
}

/// The most elements that are drawn with repetition, so that a few bytes can't ask for all memory.
const MOST_DRAWN: i64 = 1 << 20;

/// Elements that were drawn at random.
pub(super) struct Drawn {
    /// Where they are among all, ascending, each once.
    pub places: Vec<usize>,
    /// In the order in which they were drawn: which of these each is.
    order: Vec<usize>,
}

impl Drawn {
    /// What was drawn, from what is at the places.
    pub fn of<'a, T>(&self, at_places: &'a [T]) -> Vec<&'a T> {
        let drawn = self.order.iter();
        drawn.filter_map(|it| at_places.get(*it)).collect()
    }
}

/// How many elements a command is to draw, if it says so, and whether it says this word, too.
pub(super) fn drawn_count(call: &Call, word: Option<&str>) -> Result<(Option<i64>, bool), Failure> {
    if call.args.len() == 2 {
        return Ok((None, false));
    }
    let has_word = call.args.len() == 4 && word.is_some_and(|it| call.is(3, it));
    if call.args.len() > 3 && word.is_none() {
        return Err(Failure::SYNTAX);
    }
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(Failure::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    if call.args.len() > 3 && !has_word {
        return Err(Failure::SYNTAX);
    }
    // The reply would have more values than can be counted.
    if has_word && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(Failure::fixed("ERR value is out of range"));
    }
    Ok((Some(count), has_word))
}

/// Draws elements of a key, if there is one, and finds their names.
pub(super) async fn drawn_names(
    call: &Call<'_>,
    entry: Option<&Entry>,
    count: i64,
) -> Result<(Drawn, Vec<Vec<u8>>), Failure> {
    let drawn = draw(entry.map_or(0, Entry::elements) as usize, count, &call.held)?;
    let names = match entry {
        Some(entry) => {
            let mut names = call.keyspace().element_names(entry, None);
            names.names_at(&drawn.places, &call.held).await?
        }
        None => Vec::new(),
    };
    Ok((drawn, names))
}

/// Draws among so many elements: this many different ones, or with repetition if it is negative.
pub(super) fn draw(len: usize, count: i64, held: &Held) -> Result<Drawn, Failure> {
    if count < -MOST_DRAWN {
        return Err(Failure::fixed("ERR value is out of range"));
    }
    // Their places, their order, and what is made of both.
    let most = if count < 0 { usize::MAX } else { len };
    let drawn = usize::try_from(count.unsigned_abs()).map_or(most, |it| it.min(most));
    held.keep(drawn * 3 * size_of::<usize>())?;
    let mut drawn: Vec<usize> = match usize::try_from(count) {
        _ if len == 0 => Vec::new(),
        Ok(count) => fastrand::choose_multiple(0..len, count.min(len)),
        Err(_) => (0..-count).map(|_| fastrand::usize(..len)).collect(),
    };
    if count > 0 {
        fastrand::shuffle(&mut drawn);
    }
    let mut places = drawn.clone();
    places.sort_unstable();
    places.dedup();
    for place in &mut drawn {
        *place = places.partition_point(|it| it < place);
    }
    Ok(Drawn {
        places,
        order: drawn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cursors_go_when_they_are_too_many_or_too_long() {
        let memory = Arc::new(Memory::new(64 << 20));
        let cursors = Cursors::new(&memory);
        let counted = || memory.buffers.load(Relaxed);
        let first = cursors.put(b"first".to_vec());
        assert!(counted() > 0);
        assert_eq!(cursors.get(first).as_deref(), Some(&b"first"[..]));
        for _ in 0..1000 {
            let cursor = cursors.put(vec![0; 60_000]);
            assert!(cursors.get(cursor).is_some() && counted() <= 1 << 20);
        }
        assert_eq!(cursors.get(first), None);
        let short = cursors.put(b"short".to_vec());
        for _ in 1..CURSORS {
            cursors.put(Vec::new());
        }
        assert!(cursors.get(short).is_some());
        cursors.put(Vec::new());
        assert_eq!(cursors.get(short), None);
        // One that is longer than all may be is the only one.
        let longest = cursors.put(vec![0; 2 << 20]);
        assert!(cursors.get(longest).is_some());
        cursors.put(Vec::new());
        assert_eq!((cursors.get(longest), counted()), (None, OVERHEAD));
    }

    #[test]
    fn what_is_drawn_is_there_and_different_unless_it_may_repeat() {
        let memory = Memory::new(1 << 20);
        let held = Held::new(&memory);
        let all: Vec<usize> = (0..10).collect();
        for count in [0, 1, 9, 10, 1000] {
            let drawn = draw(all.len(), count, &held).unwrap();
            let at_places: Vec<usize> = drawn.places.iter().map(|it| all[*it]).collect();
            let mut found = drawn.of(&at_places);
            assert_eq!(found.len(), all.len().min(count as usize));
            found.sort_unstable();
            assert!(found.iter().is_sorted_by(|a, b| a < b));
        }
        let drawn = draw(all.len(), -100, &held).unwrap();
        assert!(drawn.places.len() <= 10 && drawn.places.is_sorted());
        assert_eq!(drawn.of(&drawn.places).len(), 100);
        assert!(draw(0, -5, &held).unwrap().of(&all).is_empty());
        assert!(draw(10, -MOST_DRAWN - 1, &held).is_err());
        assert!(draw(10, -MOST_DRAWN, &held).is_err(), "it has no memory");
    }
}
