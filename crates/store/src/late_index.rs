//! A test of what looks at the index while it does not know yet what was appended: with an index
//! that keeps writers waiting.

use std::io::ErrorKind;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use timberline_tree::{Art, Held};

use crate::index::{Entries, Found, Index, Lookup, Spot};
use crate::store::PENDING;
use crate::{Batch, Durability, Error, IndexMemory, Options, Store};

const WRITERS: u8 = 2;
/// Pairs of keys of each writer. Both keys of a pair are always written together.
const PAIRS: u8 = 50;

/// An index that now and then takes long to change a word.
struct Late(Art<[u8], u64>);

fn wait(word: Option<u64>) {
    if word != Some(PENDING) && fastrand::u8(..) < 40 {
        thread::sleep(Duration::from_micros(fastrand::u64(..1000)));
    }
}

impl Index for Late {
    fn get(&self, key: &[u8]) -> Option<u64> {
        Index::get(&self.0, key)
    }

    fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a> {
        Index::get_async(&self.0, key)
    }

    fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]) {
        Index::get_many(&self.0, keys, words);
    }

    fn hold(&self) -> Held<'_> {
        Index::hold(&self.0)
    }

    fn find_many<'h>(&'h self, held: &'h Held<'_>, keys: &[&[u8]], found: &mut [Found<'h>]) {
        Index::find_many(&self.0, held, keys, found);
    }

    fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64> {
        Index::get_at(&self.0, spot, key)
    }

    fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64> {
        wait(Some(word));
        Index::update_at(&self.0, spot, key, word)
    }

    fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error> {
        wait(Some(word));
        Index::insert(&self.0, key, word)
    }

    fn load(&self, sorted: &mut dyn Iterator<Item = (&[u8], u64)>) -> Result<(), Error> {
        self.0.load(sorted)
    }

    fn update(&self, key: &[u8], word: u64) -> Option<u64> {
        wait(Some(word));
        Index::update(&self.0, key, word)
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        wait(None);
        Index::remove(&self.0, key)
    }

    fn remove_if(&self, key: &[u8], word: u64) {
        Index::remove_if(&self.0, key, word);
    }

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries {
        Index::range(&self.0, low, high)
    }

    fn prefix(&self, prefix: &[u8]) -> Entries {
        Index::prefix(&self.0, prefix)
    }

    fn len(&self) -> usize {
        Index::len(&self.0)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn is_tiered(&self) -> bool {
        Index::is_tiered(&self.0)
    }
}

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        capacity: 48 * (64 << 10),
        cache_bytes: 0,
        durability: Durability::None,
        direct: false,
        index: IndexMemory::of(|| Ok(Late(Art::<[u8], u64>::builder().build()?))),
        ..Options::default()
    }
}

/// Folders that are removed at the end.
struct Folders(PathBuf);

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a writer's pairs have: what was acknowledged, and what the write under way would make of
/// one of them.
#[derive(Clone)]
struct Written {
    pairs: Vec<Option<u64>>,
    under_way: Option<(usize, Option<u64>)>,
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Writes one pair after the other until the store is closed.
fn write(store: &Store, writer: u8, written: &Mutex<Written>, pause: &RwLock<()>) {
    let mut rng = Rng::with_seed(writer.into());
    for nth in 1u64.. {
        let _going_on = pause.read().unwrap_or_else(PoisonError::into_inner);
        let pair = rng.u8(..PAIRS);
        let now = (rng.u8(..5) > 0).then_some(nth);
        let mut batch = Batch::new();
        for half in 0..2 {
            let key = [writer, pair, half];
            match now {
                Some(nth) => batch.put(&key, &[&nth.to_le_bytes()[..], &[0; 400]].concat()),
                None => batch.delete(&key),
            }
        }
        let lock = || written.lock().expect("nobody fails");
        lock().under_way = Some((pair.into(), now));
        match store.blocking().write(&batch) {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => panic!("{error}"),
        }
        let mut written = lock();
        written.under_way = None;
        written.pairs[usize::from(pair)] = now;
    }
}

/// Looks at pairs in snapshots until it is over. Returns in how many.
fn look(store: &Store, is_over: &AtomicBool) -> usize {
    let mut snapshots = 0;
    while !is_over.load(SeqCst) {
        let snapshot = store.snapshot();
        let all: Result<Vec<_>, _> = snapshot.blocking().range(..).collect();
        let all = all.expect("they are read");
        let halves = all.iter().map(|(key, value)| (&key[..2], number(value)));
        let halves: Vec<_> = halves.collect();
        let are_whole = halves.chunks(2).all(|it| it.len() == 2 && it[0] == it[1]);
        assert!(are_whole, "{halves:?}");
        snapshots += 1;
    }
    snapshots
}

/// A store in this folder has what was written.
fn check(folder: &Path, written: &[Written]) {
    let (store, report) = Store::open(folder, options()).expect("it opens");
    assert!(report.damaged.is_empty(), "{report:?}");
    for (writer, written) in (0..).zip(written) {
        for pair in 0..PAIRS {
            let get = |half| {
                let got = store.blocking().get(&[writer, pair, half]);
                got.expect("it is read").map(|it| number(&it))
            };
            let (got, at) = (get(0), usize::from(pair));
            assert_eq!(got, get(1));
            let may_be = written.under_way.filter(|it| it.0 == at);
            let is_it = got == written.pairs[at] || may_be.is_some_and(|it| it.1 == got);
            assert!(
                is_it,
                "{writer} {pair}: {got:?} for {:?}",
                written.pairs[at]
            );
        }
    }
}

/// Closes a store and says that it is over, so that all threads end, also where a test fails.
struct Closing<'a>(&'a Store, &'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.1.store(true, SeqCst);
        self.0.close();
    }
}

/// Waits until nothing is written or cleaned any more.
fn settle(store: &Store) {
    let is_idle = || {
        let state = store.inner.log.lock();
        state.cleaners == 0 && !state.cleaning_wanted && state.full.is_empty()
    };
    while !is_idle() {
        thread::sleep(Duration::from_millis(1));
    }
    store.blocking().sync().expect("it is on the disk");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it is made");
    for file in std::fs::read_dir(from).expect("it is listed") {
        let file = file.expect("it is listed");
        match std::fs::copy(file.path(), to.join(file.file_name())) {
            // An older checkpoint, or a segment that is cleaned: the store needs neither.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => drop(copied.expect("it is copied")),
        }
    }
}

#[test]
fn nobody_misses_what_the_index_is_about_to_know() {
    let name = format!("timberline-late-index-{}", std::process::id());
    let folders = Folders(std::env::temp_dir().join(name));
    let _ = std::fs::remove_dir_all(&folders.0);
    let folder = folders.0.join("store");
    let (store, _) = Store::open(&folder, options()).expect("it opens");
    let nothing = Written {
        pairs: vec![None; PAIRS.into()],
        under_way: None,
    };
    let written: Vec<_> = (0..WRITERS).map(|_| Mutex::new(nothing.clone())).collect();
    let now = || -> Vec<Written> {
        let of = |it: &Mutex<Written>| it.lock().expect("nobody fails").clone();
        written.iter().map(of).collect()
    };
    let (pause, is_over) = (RwLock::new(()), AtomicBool::new(false));
    thread::scope(|scope| {
        let _closing = Closing(&store, &is_over);
        for (writer, written) in (0..).zip(&written) {
            let (store, pause) = (&store, &pause);
            scope.spawn(move || write(store, writer, written, pause));
        }
        let looking = scope.spawn(|| look(&store, &is_over));
        for copied in 0..4 {
            let (checkpoints, cleaned) = (store.stats().checkpoints, store.stats().cleaned);
            store.begin_checkpoint();
            while store.stats().checkpoints == checkpoints || store.stats().cleaned < cleaned + 4 {
                thread::sleep(Duration::from_millis(1));
            }
            let _paused = pause.write().unwrap_or_else(PoisonError::into_inner);
            settle(&store);
            let copied = folders.0.join(format!("copy {copied}"));
            copy(&folder, &copied);
            check(&copied, &now());
        }
        is_over.store(true, SeqCst);
        assert!(looking.join().expect("pairs are whole") > 4);
    });
    drop(store);
    check(&folder, &now());
}
