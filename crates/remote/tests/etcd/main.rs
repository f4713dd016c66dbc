//! Members whose leases and partitions are in etcd, a process of Debian's `etcd-server`; without
//! it, these tests say so and do nothing.

mod late;
#[path = "../patience/mod.rs"]
mod patience;
mod process;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use late::Late;
use patience::at_last;
use process::Server;
use timberline_io::wait_for;
use timberline_remote::fabric::InProcess;
use timberline_remote::{Error, Etcd, Layout, Member, Options, Result, load};

const HALF: u64 = 1 << 63;
/// A lease that no test waits for.
const LONG: Duration = Duration::from_secs(300);
/// As short as etcd's can be.
const SHORT: Duration = Duration::from_secs(1);
fn options() -> Options {
    Options {
        cache_bytes: 200 << 10,
        write_through: true,
        ..Options::default()
    }
}

/// With this etcd.
fn kept_by(etcd: Etcd) -> Options {
    Options {
        etcd: Some(etcd),
        ..options()
    }
}

/// Two memory servers with an empty tree of two partitions.
fn pool() -> InProcess {
    let pool = InProcess::new(2, 8 << 20).unwrap();
    let layout = Layout {
        boundaries: vec![HALF],
        ..Layout::default()
    };
    wait_for(load(Arc::new(pool.client()), layout, [])).unwrap();
    pool
}

fn join(pool: &InProcess, options: Options, lease: Duration) -> Result<Member> {
    wait_for(Member::join(Arc::new(pool.client()), options, lease))
}

/// A member with a short lease, which has the lower half of the keys, and one with a long lease,
/// which has the others. The first one has inserted a key with the value 1.
fn short_and_long(pool: &InProcess, server: &Server, key: u64) -> (Member, Member) {
    let short = join(pool, kept_by(server.etcd()), SHORT).unwrap();
    let long = join(pool, kept_by(server.etcd()), LONG).unwrap();
    wait_for(short.claim(&(0..=HALF - 1))).unwrap();
    wait_for(long.claim(&(0..=u64::MAX))).unwrap();
    at_last(|| {
        let renewed = wait_for(short.renew()).is_ok();
        (renewed && wait_for(short.tree().insert(key, 1)).is_ok()).then_some(())
    });
    (short, long)
}

/// Fills keys of both halves. Returns them.
fn fill(members: &[&Member]) -> Vec<u64> {
    let keys: Vec<u64> = (0..400)
        .map(|it: u64| it.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    for &key in &keys {
        let owner = members
            .iter()
            .find(|it| it.owner(key) == Some(it.compute()));
        let owner = owner.expect("somebody has the key");
        assert_eq!(wait_for(owner.tree().insert(key, !key)), Ok(None));
    }
    keys
}

#[test]
fn keys_change_hands() {
    let Some(server) = Server::start("hands") else {
        return;
    };
    let pool = pool();
    let [one, other] = [(); 2].map(|()| join(&pool, kept_by(server.etcd()), LONG).unwrap());
    wait_for(one.claim(&(0..=HALF - 1))).unwrap();
    wait_for(other.claim(&(0..=u64::MAX))).unwrap();
    assert_eq!(one.tree().partitions(), [0..=HALF - 1]);
    assert_eq!(other.tree().partitions(), [HALF..=u64::MAX]);
    wait_for(one.sync()).unwrap();
    let keys = fill(&[&one, &other]);
    let (first, last) = (HALF / 4, HALF / 2);
    wait_for(one.hand_over(first..=last, other.compute())).unwrap();
    assert_eq!(wait_for(one.tree().get(first)), Err(Error::NotOwned(first)));
    wait_for(other.sync()).unwrap();
    assert_eq!(other.owner(last), Some(other.compute()));
    // Both change the table at a time: none overwrites what the other one did.
    thread::scope(|scope| {
        let to_one = one.compute();
        scope.spawn(|| {
            let to_other = other.compute();
            for key in 0..40 {
                wait_for(one.hand_over(key * 10..=key * 10 + 4, to_other)).unwrap();
            }
        });
        for key in 0..40 {
            let key = HALF + key * 10;
            wait_for(other.hand_over(key..=key + 4, to_one)).unwrap();
        }
    });
    for member in [&one, &other] {
        wait_for(member.tend()).unwrap();
    }
    for key in 0..40 {
        assert_eq!(one.owner(key * 10), Some(other.compute()));
        assert_eq!(one.owner(HALF + key * 10), Some(one.compute()));
        assert_eq!(one.owner(HALF + key * 10 + 5), Some(other.compute()));
    }
    // Who leaves gives its keys to the others.
    wait_for(one.leave()).unwrap();
    assert_eq!(wait_for(one.renew()), Err(Error::Fenced));
    wait_for(other.tend()).unwrap();
    assert_eq!(other.tree().partitions(), [0..=u64::MAX]);
    assert_eq!(wait_for(other.members()).unwrap(), [other.compute()]);
    for key in keys {
        assert_eq!(wait_for(other.tree().get(key)), Ok(Some(!key)));
    }
}

/// A member that renews its lease no more answers nothing, then others have its keys.
#[test]
fn a_lease_that_ends_is_lost() {
    let Some(server) = Server::start("ends") else {
        return;
    };
    let pool = pool();
    let key = 7;
    let (silent, other) = short_and_long(&pool, &server, key);
    at_last(|| {
        wait_for(other.watch()).unwrap();
        wait_for(other.tend()).unwrap();
        (other.owner(key) == Some(other.compute())).then_some(())
    });
    assert_eq!(wait_for(other.tree().insert(key, 2)), Ok(Some(1)));
    // Its cache has the record.
    assert_eq!(wait_for(silent.tree().get(key)), Err(Error::LeaseExpired));
    assert!(wait_for(silent.tree().insert(key, 3)).is_err());
    assert_eq!(wait_for(silent.renew()), Err(Error::Fenced));
    assert_eq!(wait_for(other.tree().get(key)), Ok(Some(2)));
}

/// Stopped: members answer until their leases end. Killed, and started again: it knows everything.
#[test]
fn etcd_may_stop_and_die() {
    let Some(mut server) = Server::start("stops") else {
        return;
    };
    let pool = pool();
    let key = 7;
    let (short, long) = short_and_long(&pool, &server, key);
    server.signal("-STOP");
    let refused = at_last(|| wait_for(short.tree().get(key)).err());
    assert_eq!(refused, Error::LeaseExpired);
    let Err(Error::Etcd(line)) = wait_for(short.renew()) else {
        panic!("a stopped etcd answered");
    };
    assert!(
        line.contains("http://127.0.0.1") && !line.contains('\n'),
        "{line}"
    );
    // The other one's lease goes on.
    assert_eq!(wait_for(long.tree().insert(HALF, 5)), Ok(None));
    server.signal("-CONT");
    server.restart();
    wait_for(long.renew()).unwrap();
    let owner = at_last(|| {
        // Its lease may have ended meanwhile.
        if wait_for(short.renew()).is_ok()
            && let Ok(found) = wait_for(short.tree().get(key))
        {
            return Some((found, short.compute()));
        }
        wait_for(long.watch()).ok()?;
        wait_for(long.tend()).ok()?;
        let found = wait_for(long.tree().get(key)).ok()?;
        Some((found, long.compute()))
    });
    assert_eq!(owner.0, Some(1));
    assert_eq!(wait_for(long.tree().get(HALF)), Ok(Some(5)));
    wait_for(long.sync()).unwrap();
    assert_eq!(long.owner(HALF), Some(long.compute()));
}

/// An etcd of three servers, of which one dies and later another one stops: members notice nothing
/// but changes that they have to make again.
#[test]
fn a_server_of_etcd_may_die() {
    let Some(mut servers) = Server::start_several::<3>("three") else {
        return;
    };
    let urls = servers
        .each_ref()
        .map(|it| format!("http://{}", it.address()));
    let etcd = || Etcd::new(&urls.join(",")).unwrap();
    let pool = pool();
    let join = || at_last(|| join(&pool, kept_by(etcd()), LONG).ok());
    let [one, other] = [join(), join()];
    at_last(|| wait_for(one.claim(&(0..=HALF - 1))).ok());
    at_last(|| wait_for(other.claim(&(0..=u64::MAX))).ok());
    let keys = fill(&[&one, &other]);
    let give = |keys: std::ops::RangeInclusive<u64>| {
        at_last(|| {
            wait_for(one.sync()).ok()?;
            let is_given = one.owner(*keys.start()) == Some(other.compute());
            is_given
                .then_some(())
                .or_else(|| wait_for(one.hand_over(keys.clone(), other.compute())).ok())
        });
        at_last(|| wait_for(other.sync()).ok());
        assert_eq!(other.owner(*keys.end()), Some(other.compute()));
    };
    servers[0].kill();
    give(0..=HALF / 4);
    // Who comes now finds the others, too.
    let third = join();
    servers[0].restart();
    servers[1].signal("-STOP");
    give(HALF / 4 + 1..=HALF / 2);
    at_last(|| wait_for(third.leave()).ok());
    servers[1].signal("-CONT");
    for key in keys {
        let owner = if other.owner(key) == Some(other.compute()) {
            &other
        } else {
            &one
        };
        assert_eq!(wait_for(owner.tree().get(key)), Ok(Some(!key)));
    }
}

/// A change of the table that got no answer may be done at any later time. Whoever made it has the
/// keys again only when that cannot happen any more; otherwise two members would have them.
#[test]
fn a_change_that_is_done_late_gives_no_key_two_owners() {
    let Some(server) = Server::start("late") else {
        return;
    };
    let pool = pool();
    let late = Late::new(server.address());
    let one = join(&pool, kept_by(late.etcd()), LONG).unwrap();
    let other = join(&pool, kept_by(server.etcd()), LONG).unwrap();
    wait_for(one.claim(&(0..=u64::MAX))).unwrap();
    let key = 7;
    assert_eq!(wait_for(one.tree().insert(key, 1)), Ok(None));
    let refused = late.while_changes_are_held_back(|| {
        wait_for(one.hand_over(0..=HALF - 1, other.compute())).unwrap_err()
    });
    assert!(matches!(refused, Error::Etcd(_)), "{refused}");
    assert_eq!(wait_for(one.tree().get(key)), Err(Error::NotOwned(key)));
    wait_for(one.sync()).unwrap();
    assert_eq!(wait_for(one.tree().insert(key, 2)), Ok(Some(1)));
    assert_eq!(late.let_go(), 1);
    wait_for(other.sync()).unwrap();
    wait_for(one.sync()).unwrap();
    assert_eq!(wait_for(other.tree().get(key)), Err(Error::NotOwned(key)));
    assert_eq!(wait_for(one.tree().get(key)), Ok(Some(2)));
    // The same once more, and now it is done before anybody looks.
    late.while_changes_are_held_back(|| {
        wait_for(one.hand_over(0..=HALF - 1, other.compute())).unwrap_err()
    });
    assert_eq!(late.let_go(), 1);
    wait_for(one.sync()).unwrap();
    wait_for(other.sync()).unwrap();
    assert_eq!(wait_for(one.tree().get(key)), Err(Error::NotOwned(key)));
    assert_eq!(wait_for(other.tree().get(key)), Ok(Some(2)));
}

/// An etcd that has lost its data knows no member: whoever was one does nothing more, and nobody
/// joins, since others might still have keys.
#[test]
fn an_etcd_without_its_data_serves_no_tree() {
    let Some(mut server) = Server::start("loses") else {
        return;
    };
    let pool = pool();
    let member = join(&pool, kept_by(server.etcd()), LONG).unwrap();
    wait_for(member.claim(&(0..=u64::MAX))).unwrap();
    assert_eq!(wait_for(member.tree().insert(1, 1)), Ok(None));
    server.kill();
    server.lose();
    server.restart();
    assert_eq!(wait_for(member.renew()), Err(Error::Fenced));
    assert_eq!(wait_for(member.tree().get(1)), Err(Error::LeaseExpired));
    let line = join(&pool, kept_by(server.etcd()), LONG)
        .err()
        .unwrap()
        .to_string();
    assert!(
        line.contains("has lost its data") && !line.contains('\n'),
        "{line}"
    );
}

/// All members of a tree have to use the same.
#[test]
fn owners_are_in_one_place() {
    let Some(server) = Server::start("place") else {
        return;
    };
    let [first, second] = [pool(), pool()];
    let _member = join(&first, options(), LONG).unwrap();
    let refused = join(&first, kept_by(server.etcd()), LONG).err();
    assert_eq!(refused, Some(Error::OwnersElsewhere { in_etcd: false }));
    let _member = join(&second, kept_by(server.etcd()), LONG).unwrap();
    let refused = join(&second, options(), LONG).err();
    assert_eq!(refused, Some(Error::OwnersElsewhere { in_etcd: true }));
    // Two trees in one etcd know nothing of each other.
    let third = pool();
    let member = join(&third, kept_by(server.etcd()), LONG).unwrap();
    assert_eq!(wait_for(member.members()).unwrap(), [member.compute()]);
}

/// Needs no etcd: nobody is there, or somebody else.
#[test]
fn what_is_no_etcd_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // Who closes what was not read resets the connection.
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"etcdserver\":\"3.3.25\"}");
        }
    });
    for (port, said) in [
        (1, "127.0.0.1:1"),
        (port, "it is version 3.3.25; 3.4 or a later"),
    ] {
        let etcd = Etcd::new(&format!("http://127.0.0.1:{port}")).unwrap();
        let line = join(&pool(), kept_by(etcd), SHORT)
            .err()
            .unwrap()
            .to_string();
        assert!(line.contains(said) && !line.contains('\n'), "{line}");
    }
}
