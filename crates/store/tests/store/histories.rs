//! Clients that read and write the same few keys at once, while segments are cleaned: each key's
//! history is linearizable.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;

use crate::linear::{Answer, Event, Op, is_contended, judge};
use crate::opened::{Folder, pause, simulated, with_store};
use crate::{SEGMENT, options_with};
use fastrand::Rng;
use timberline_io::wait_for;
use timberline_store::{Batch, Durability, Options, Store, join};

const CLIENTS: u64 = 4;
/// Keys that a round is about, which nothing was done to before.
const KEYS: u64 = 3;
/// Operations of a client in a round.
const CALLS: u64 = 20;

fn options(durability: Durability, cache_bytes: u64) -> Options {
    Options {
        capacity: 16 * SEGMENT,
        cache_bytes,
        ..options_with(durability)
    }
}

/// The value that a number stands for: long enough for segments to fill, now and then in pieces.
fn value(number: u64) -> Vec<u8> {
    let words = match number % 40 {
        0 => 2_000,
        few => 20 * few as usize,
    };
    number.to_be_bytes().repeat(words.max(1))
}

/// The number of a value, which is whole.
fn number(found: &[u8]) -> u64 {
    let number = u64::from_be_bytes(found[..8].try_into().expect("it has a number"));
    assert!(found == value(number), "a part of {number}");
    number
}

fn draw(rng: &mut Rng, new: u64, last: &mut Option<u64>) -> Op {
    match rng.u8(0..16) {
        0..6 => Op::Get,
        6..10 => Op::Insert(new),
        10..12 => Op::Remove,
        // Mostly of what this client knows of.
        12..14 => Op::Exchange(*last, Some(new)),
        14 => Op::Exchange(*last, None),
        _ => Op::Exchange(None, Some(new)),
    }
}

/// Does it, if it can be at once and in this form where `now` says so.
async fn perform(store: &Store, key: u64, op: Op, now: bool) -> Answer {
    let bytes = key.to_be_bytes();
    match op {
        Op::Get => {
            let found = match store.get_now(&bytes, number) {
                Poll::Ready(found) if now => found,
                _ => {
                    let found = store.get(&bytes).await.expect("it is read");
                    found.as_deref().map(number)
                }
            };
            Answer::Was(found)
        }
        Op::Insert(new) => {
            let new = value(new);
            match now {
                true => {
                    if store.put_now(&bytes, &new).is_pending() {
                        store.put(&bytes, &new).await.expect("there is space");
                    }
                }
                // As one of two writes that are done at once.
                false => {
                    let mut batch = Batch::new();
                    batch.put(&bytes, &new);
                    batch.put(b"beside", &new[..8]);
                    store.write(&batch).await.expect("there is space");
                }
            }
            Answer::Done
        }
        Op::Remove => Answer::WasThere(store.delete(&bytes).await.expect("it is deleted")),
        Op::Exchange(expected, new) => {
            let [expected, new] = [expected, new].map(|it| it.map(value));
            let done = store.compare_and_set(&bytes, expected.as_deref(), new.as_deref());
            match done.await.expect("there is space") {
                Ok(()) => Answer::Exchanged,
                Err(there) => Answer::Refused(there.as_deref().map(number)),
            }
        }
        Op::Update(_) | Op::Increment => unreachable!("the store has none"),
    }
}

/// What a client does in a round.
async fn take_part(
    store: &Store,
    (round, client): (u64, u64),
    rng: &mut Rng,
    clock: &AtomicU64,
    events: &Mutex<Vec<Event>>,
) {
    let mut last = None;
    for call in 0..CALLS {
        let key = round * KEYS + rng.u64(0..KEYS);
        let new = (round * CLIENTS + client) * CALLS + call + 1;
        let op = draw(rng, new, &mut last);
        let begin = clock.fetch_add(1, SeqCst);
        let answer = perform(store, key, op, rng.bool()).await;
        let end = clock.fetch_add(1, SeqCst);
        if let Answer::Was(there) | Answer::Refused(there) = answer {
            last = there;
        }
        events.lock().expect("nobody panicked").push(Event {
            key,
            op,
            begin,
            end,
            answer: Some(answer),
        });
        if rng.bool() {
            pause().await;
        }
    }
}

/// Makes space for the next rounds.
async fn forget(store: &Store, round: u64) {
    for key in round * KEYS..(round + 1) * KEYS {
        let deleted = store.delete(&key.to_be_bytes()).await;
        deleted.expect("it is deleted");
    }
}

/// The verdict on a round; whether clients met.
fn verdict(what: &str, events: Mutex<Vec<Event>>) -> bool {
    let events = events.into_inner().expect("nobody panicked");
    assert_eq!(events.len() as u64, CLIENTS * CALLS);
    judge(&events).unwrap_or_else(|why| panic!("{what}: {why}"));
    is_contended(&events)
}

/// On the simulated disk, whose requests end in an order that the seed chooses.
#[test]
pub fn histories_of_futures_are_linearizable() {
    const ROUNDS: u64 = 40;
    let (mut met, mut cleaned) = (0, 0);
    for seed in 0..12 {
        let (_, disk, mut driver) = simulated(seed);
        let durability = [Durability::None, Durability::Each][seed as usize % 2];
        let cache_bytes = [0, 64 << 10, 1 << 20][seed as usize % 3];
        let options = options(durability, cache_bytes);
        driver.block_on(with_store(&disk, options, async |store| {
            for round in 0..ROUNDS {
                let (clock, events) = (AtomicU64::new(0), Mutex::default());
                let mut rngs: Vec<_> = (0..CLIENTS)
                    .map(|client| Rng::with_seed((seed * ROUNDS + round) * CLIENTS + client))
                    .collect();
                let mut clients = rngs
                    .iter_mut()
                    .zip(0..)
                    .map(|(rng, client)| take_part(store, (round, client), rng, &clock, &events));
                let mut next = || clients.next().expect("there are four");
                let (one, two, three, four) = (next(), next(), next(), next());
                join(join(one, two), join(three, four)).await;
                drop(clients);
                met += u64::from(verdict(&format!("seed {seed}, round {round}"), events));
                forget(store, round).await;
            }
            cleaned += store.stats().cleaned;
        }));
    }
    println!("clients met in {met} rounds; {cleaned} segments were cleaned");
    assert!(met > 0 && cleaned > 0);
}

/// On threads, on this machine's disk.
#[test]
pub fn histories_of_threads_are_linearizable() {
    const ROUNDS: u64 = 60;
    let mut met = 0;
    for durability in [Durability::None, Durability::Each] {
        let folder = Folder::new();
        let opened = Store::open(&folder.0, options(durability, 64 << 10));
        let (store, _) = opened.expect("it opens");
        for round in 0..ROUNDS {
            let (clock, events) = (AtomicU64::new(0), Mutex::default());
            std::thread::scope(|scope| {
                for client in 0..CLIENTS {
                    let (store, clock, events) = (&store, &clock, &events);
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(round * CLIENTS + client);
                        let part = take_part(store, (round, client), &mut rng, clock, events);
                        wait_for(part);
                    });
                }
            });
            met += u64::from(verdict(&format!("{durability:?}, round {round}"), events));
            wait_for(forget(&store, round));
        }
        store.stop().expect("all is on the disk");
    }
    println!("clients met in {met} rounds");
    assert!(met > 0);
}
