//! Single operations, and many at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use timberline_remote::fabric::{Connection, Operation, Reply};
use timberline_remote::pool::CHUNK;
use timberline_remote::{Address, Error};

use super::beds::each;

#[test]
fn what_was_written_is_read() {
    each(4, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            for server in 0..2 {
                for (chunk, words) in [(0, 0), (0, 1), (1, 3), (1, 128), (2, 129), (3, 32_768)] {
                    let at = Address::new(server, chunk * CHUNK as u64);
                    let written: Vec<u64> = (1..=words).map(|it| it << 40 | words).collect();
                    assert_eq!(connection.write(at, written.clone()).await, Ok(()));
                    assert_eq!(connection.read(at, words as usize).await, Ok(written));
                }
            }
            let counts = connection.counts();
            assert_eq!((counts.reads, counts.writes, counts.atomics), (12, 12, 0));
            assert_eq!(counts.bytes, 4 * 8 * (1 + 3 + 128 + 129 + 32_768));
        }));
    });
}

#[test]
fn words_are_exchanged_and_added_to() {
    each(1, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            let at = Address::new(1, 4_096);
            assert_eq!(connection.compare_exchange(at, 0, 1 << 63).await, Ok(0));
            assert_eq!(connection.compare_exchange(at, 0, 5).await, Ok(1 << 63));
            assert_eq!(connection.fetch_add(at, 3).await, Ok(1 << 63));
            assert_eq!(connection.fetch_add(at, u64::MAX).await, Ok((1 << 63) + 3));
            assert_eq!(connection.read(at, 2).await, Ok(vec![(1 << 63) + 2, 0]));
            assert_eq!(connection.counts().atomics, 4);
        }));
    });
}

#[test]
fn writes_in_order_are_all_done() {
    each(1, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            let [one, two, three] = [64, 8, 9_000].map(|offset| Address::new(0, offset));
            let writes = vec![(one, vec![1, 2]), (two, vec![3]), (three, vec![4; 500])];
            assert_eq!(connection.write_in_order(writes).await, Ok(()));
            assert_eq!(connection.read(one, 3).await, Ok(vec![1, 2, 0]));
            assert_eq!(connection.read(two, 2).await, Ok(vec![3, 0]));
            assert_eq!(connection.read(three, 501).await, {
                let mut words = vec![4; 500];
                words.push(0);
                Ok(words)
            });
            let nowhere = Address::new(0, CHUNK as u64);
            let writes = vec![(one, vec![9]), (nowhere, vec![9])];
            let refused = connection.write_in_order(writes).await;
            assert_eq!(refused, Err(Error::OutOfRange(nowhere)));
            assert_eq!(connection.read(one, 1).await, Ok(vec![1]));
        }));
    });
}

#[test]
fn what_is_not_there_is_refused() {
    each(2, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            let end = Address::new(0, 2 * CHUNK as u64);
            for at in [end, Address::new(0, 12), Address::new(0, (1 << 48) - 8)] {
                let refused = Err(Error::OutOfRange(at));
                assert_eq!(connection.read(at, 1).await, refused);
                assert_eq!(
                    connection.fetch_add(at, 1).await,
                    Err(Error::OutOfRange(at))
                );
                let written = connection.write(at, vec![1]).await;
                assert_eq!(written, Err(Error::OutOfRange(at)));
            }
            let last = Address::new(0, 2 * CHUNK as u64 - 8);
            assert_eq!(connection.read(last, 1).await, Ok(vec![0]));
            // A simulated network reads in two parts, and names the second.
            let beyond = connection.read(last, 2).await;
            assert!(matches!(beyond, Err(Error::OutOfRange(_))), "{beyond:?}");
            let none = Address::new(2, 0);
            assert_eq!(connection.read(none, 1).await, Err(Error::NoServer(2)));
        }));
    });
}

#[test]
fn memory_is_handed_out_until_it_is_full() {
    each(2, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            let nodes = connection.allocate(1).await.unwrap();
            assert_eq!(nodes.len(), CHUNK / 1024);
            assert_eq!(connection.allocate(1).await, Err(Error::PoolFull(1)));
            let load = connection.load(1).await.unwrap();
            assert_eq!(load.allocated_bytes, 2 * CHUNK as u64);
            let nowhere = Address::new(1, 8);
            let refused = connection.give_back(nowhere).await;
            assert_eq!(refused, Err(Error::OutOfRange(nowhere)));
            assert_eq!(connection.give_back(nodes[7]).await, Ok(()));
            assert_eq!(connection.allocate(1).await, Ok(vec![nodes[7]]));
            assert_eq!(connection.counts().calls, 6);
        }));
    });
}

/// More operations than a network has room for, of all kinds.
#[test]
fn many_operations_are_under_way_together() {
    each(4, |bed| {
        let connection = Connection::new(bed.client());
        bed.run(Box::pin(async move {
            let at = |number: u64| Address::new((number % 2) as u16, 1024 * (number / 2));
            let writes = (0..1_500).map(|number| {
                let words = vec![number; 1 + number as usize % 128];
                connection.start(Operation::Write(at(number), words))
            });
            for done in join_all(writes.collect::<Vec<_>>()).await {
                assert_eq!(done, Ok(Reply::Written));
            }
            let calls: Vec<_> = (0..200).map(|number| connection.load(number % 2)).collect();
            let reads = (0..1_500).map(|number| {
                let words = 1 + number as usize % 128;
                (number, connection.start(Operation::Read(at(number), words)))
            });
            for (number, read) in reads.collect::<Vec<_>>() {
                let words = vec![number; 1 + number as usize % 128];
                assert_eq!(read.await, Ok(Reply::Words(words)));
            }
            for load in join_all(calls).await {
                assert!(load.is_ok());
            }
            let counter = Address::new(0, 3 * CHUNK as u64);
            let adds = (0..1_000).map(|_| connection.start(Operation::FetchAdd(counter, 1)));
            let mut before: Vec<u64> = Vec::new();
            for done in join_all(adds.collect::<Vec<_>>()).await {
                match done {
                    Ok(Reply::Word(word)) => before.push(word),
                    other => panic!("{other:?}"),
                }
            }
            before.sort_unstable();
            assert!(before.into_iter().eq(0..1_000));
        }));
    });
}

/// Two compute servers change a word together: no change is lost.
#[test]
fn compute_servers_do_not_lose_each_others_changes() {
    each(1, |bed| {
        let connections = [0, 1].map(|_| Connection::new(bed.client()));
        bed.run(Box::pin(async move {
            let [sum, lock] = [64, 128].map(|offset| Address::new(0, offset));
            let change = async |connection: &Connection| {
                for _ in 0..300 {
                    connection.fetch_add(sum, 1).await.unwrap();
                    let mut old = 0;
                    loop {
                        let seen = connection
                            .compare_exchange(lock, old, old + 1)
                            .await
                            .unwrap();
                        match seen == old {
                            true => break,
                            false => old = seen,
                        }
                    }
                }
            };
            join(change(&connections[0]), change(&connections[1])).await;
            assert_eq!(connections[0].read(sum, 1).await, Ok(vec![600]));
            assert_eq!(connections[1].read(lock, 1).await, Ok(vec![600]));
        }));
    });
}

#[test]
fn who_is_fenced_does_nothing_more() {
    each(1, |bed| {
        let fabrics = [0, 1].map(|_| bed.client());
        let [late, other] = fabrics.map(|it| Arc::new(Connection::new(it)));
        bed.run(Box::pin(async move {
            let at = Address::new(0, 8);
            assert_eq!(late.write(at, vec![1]).await, Ok(()));
            assert_eq!(other.is_fenced(0, late.compute()).await, Ok(false));
            assert_eq!(other.fence(late.compute()).await, Ok(()));
            // By a network card it may learn of it a little later.
            let mut refused = late.write(at, vec![2]).await;
            while matches!(refused, Err(Error::Lost(0))) {
                refused = late.write(at, vec![2]).await;
            }
            assert_eq!(refused, Err(Error::Fenced));
            // And it is told so when it connects again.
            for _ in 0..20 {
                assert_eq!(late.read(at, 1).await, Err(Error::Fenced));
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(late.fetch_add(at, 1).await, Err(Error::Fenced));
            assert_eq!(other.read(at, 1).await, Ok(vec![1]));
            assert_eq!(other.is_fenced(0, late.compute()).await, Ok(true));
        }));
    });
}
