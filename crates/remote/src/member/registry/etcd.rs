//! Members and owners of keys in etcd.
//!
//! All keys begin with `timberline/` and a number that the pool has, too:
//!
//! | key | value |
//! |---|---|
//! | `…/partitions` | the table of who has which keys, as in the pool |
//! | `…/members/7` | the compute server of place 7, until it was buried |
//! | `…/alive/7` | the same, with a lease of etcd: it vanishes when the lease ends |
//!
//! They are read together, as of one revision. The table is written by a transaction that compares
//! the revision of its last change, and so is every burial; a change that was made beside others is
//! made again. So who is not buried when keys are given to it is found when it is.
//!
//! **Writes without an answer** may be done at any later time: each request has a connection of its
//! own, and an etcd that was stopped may find it there hours later. So a member that got no answer
//! writes the table once more, as it is, before it believes what it reads. Nothing that compares an
//! older revision is done after that. Otherwise it could have keys again that it was about to give
//! away, and then another one would get them, too.
//!
//! **The number.** The table is made under a number drawn by chance, which then is written to the
//! pool by compare-and-swap. So an etcd without the pool's number has lost its data, or is another
//! one: members that it does not know may have keys, and nobody joins there.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};

use super::gateway::{Gateway, decoded, encoded, number};
use super::urls::Etcd;
use super::{keep, live};
use crate::address::ComputeId;
use crate::error::{Error, Result};
use crate::fabric::Connection;
use crate::pool::MAX_MEMBERS;
use crate::pool::directory::{KEEPER, KEPT_HERE, Partitions, Place};

/// A member's end of the keys of one tree.
pub(in crate::member) struct InEtcd {
    gateway: Gateway,
    /// What all keys begin with.
    prefix: String,
    /// The lease of this member.
    lease: i64,
    /// Whether a write of the table by this member may still be done.
    is_unsure: AtomicBool,
}

/// What etcd has of a tree, at one revision.
pub(super) struct Seen {
    pub partitions: Partitions,
    /// When the table was last changed.
    revision: i64,
    pub places: Vec<(usize, Place)>,
}

impl InEtcd {
    /// The keys of the pool's tree; new ones if no member has joined before.
    pub async fn open(connection: &Connection, etcd: &Etcd, lease: Duration) -> Result<InEtcd> {
        let gateway = Gateway::new(etcd, lease / 2);
        gateway.check().await?;
        // As long as others take to declare a member dead whose lease is the pool's matter.
        let seconds = (lease.as_secs_f64() * 1.5).ceil().max(2.0) as u64;
        let granted = gateway
            .ask("/v3/lease/grant", json!({ "TTL": seconds }))
            .await?;
        let lease = number(&granted["ID"]).filter(|&it| it != 0);
        let lease = lease.ok_or_else(|| gateway.error("it grants no lease"))?;
        let read = async || Ok(connection.read(KEEPER, 1).await?[0]);
        let mut keeper = connection.insist(read).await?;
        if keeper == 0 {
            keeper = create(connection, &gateway).await?;
        }
        if keeper == KEPT_HERE {
            return Err(Error::OwnersElsewhere { in_etcd: false });
        }
        let prefix = prefix(keeper);
        let registry = InEtcd {
            gateway,
            prefix,
            lease,
            is_unsure: AtomicBool::new(false),
        };
        registry.read().await.map(|_| registry)
    }

    /// All keys.
    pub(super) async fn read(&self) -> Result<Seen> {
        let all = json!({
            "key": encoded(&self.prefix),
            // The first key behind those that begin so: '0' follows '/'.
            "range_end": encoded(format!("{}0", self.prefix.trim_end_matches('/'))),
        });
        let answer = self.gateway.ask("/v3/kv/range", all).await?;
        self.seen(&answer).ok_or_else(|| {
            self.gateway.error(
                "it does not have this tree's owners of keys: it is not the one that the tree was \
                 used with, or has lost its data",
            )
        })
    }

    fn seen(&self, answer: &Value) -> Option<Seen> {
        let (mut table, mut members, mut alive) = (None, Vec::new(), Vec::new());
        for entry in answer.get("kvs")?.as_array()? {
            let key = String::from_utf8(decoded(&entry["key"])?).ok()?;
            let value = decoded(&entry["value"])?;
            let compute = || {
                let text = std::str::from_utf8(&value).ok()?;
                ComputeId::new(u64::from_str_radix(text, 16).ok()?)
            };
            match key.strip_prefix(&self.prefix)?.split_once('/') {
                None => table = Some((partitions_of(&value)?, number(&entry["mod_revision"])?)),
                Some(("members", place)) => members.push((place.parse().ok()?, compute()?)),
                Some((_, place)) => alive.push((place.parse::<usize>().ok()?, compute()?)),
            }
        }
        let (partitions, revision) = table?;
        let place = |&(number, compute): &(usize, ComputeId)| {
            let is_dead = !alive.contains(&(number, compute));
            (number, Place::known(compute, is_dead))
        };
        Some(Seen {
            partitions,
            revision,
            places: members.iter().map(place).collect(),
        })
    }

    /// The table, of which no write of this member will be done any more. One task of a member
    /// reads or writes it at a time.
    pub async fn partitions(&self) -> Result<Partitions> {
        while self.is_unsure.load(SeqCst) {
            let seen = self.read().await?;
            self.write(seen, None).await?;
        }
        Ok(self.read().await?.partitions)
    }

    /// Takes a free place, with this member's lease.
    pub async fn take_place(&self, compute: ComputeId) -> Result<(usize, Place)> {
        loop {
            let places = self.read().await?.places;
            let is_free = |number: &usize| places.iter().all(|(taken, _)| taken != number);
            let Some(free) = (0..MAX_MEMBERS).find(is_free) else {
                return Err(Error::TooManyMembers(MAX_MEMBERS));
            };
            let key = self.key("members", free);
            let is_taken = self.transact(
                json!([{ "key": key, "target": "CREATE", "create_revision": "0" }]),
                json!([
                    put(&key, compute.to_string()),
                    { "request_put": {
                        "key": self.key("alive", free),
                        "value": encoded(compute.to_string()),
                        "lease": self.lease.to_string(),
                    } },
                ]),
            );
            if is_taken.await? {
                return Ok((free, Place::new(compute)));
            }
        }
    }

    /// Renews the lease. Says whether there was one.
    pub async fn keep_alive(&self) -> Result<bool> {
        let lease = json!({ "ID": self.lease.to_string() });
        let answer = self.gateway.ask("/v3/lease/keepalive", lease).await?;
        let result = answer.get("result");
        let result = result.ok_or_else(|| self.gateway.error("it does not renew leases"))?;
        Ok(number(&result["TTL"]).is_some_and(|seconds| seconds > 0))
    }

    /// Ends the lease. It may have ended before.
    pub async fn leave(&self) -> Result<()> {
        if self.keep_alive().await? {
            let lease = json!({ "ID": self.lease.to_string() });
            self.gateway.call("/v3/lease/revoke", lease).await?;
        }
        Ok(())
    }

    /// Distributes the keys of a dead member, and forgets it.
    pub async fn bury(&self, place: usize, dead: Place) -> Result<()> {
        loop {
            let mut seen = self.read().await?;
            if !seen.places.contains(&(place, dead)) {
                return Ok(());
            }
            let live = live(&seen.places);
            seen.partitions.distribute(dead.compute, &live);
            let forget = json!({ "request_delete_range": { "key": self.key("members", place) } });
            // Also if it had no keys: the table's revision tells others that it is no more.
            if self.write(seen, Some(forget)).await? {
                return Ok(());
            }
        }
    }

    /// Changes the table, if there is something to change, as often as others do meanwhile.
    pub async fn change(
        &self,
        change: impl AsyncFn(&mut Partitions, &[ComputeId]) -> Result<()>,
    ) -> Result<()> {
        loop {
            let mut seen = self.read().await?;
            let before = seen.partitions.clone();
            let live = live(&seen.places);
            change(&mut seen.partitions, &live).await?;
            if seen.partitions == before || self.write(seen, None).await? {
                return Ok(());
            }
        }
    }

    /// Writes the table if nobody has since it was read. Says whether it did.
    async fn write(&self, seen: Seen, also: Option<Value>) -> Result<bool> {
        let key = encoded(format!("{}partitions", self.prefix));
        let revision = seen.revision.to_string();
        let table = put(&key, bytes_of(&seen.partitions.next()?));
        let writes: Vec<Value> = [table].into_iter().chain(also).collect();
        let same = json!([{ "key": key, "target": "MOD", "mod_revision": revision }]);
        let was_unsure = self.is_unsure.swap(true, SeqCst);
        let is_done = self.transact(same, json!(writes)).await?;
        // What was done has changed the revision that earlier ones compare.
        self.is_unsure.store(was_unsure && !is_done, SeqCst);
        Ok(is_done)
    }

    /// Does these if those are so. Says whether they were.
    async fn transact(&self, compare: Value, success: Value) -> Result<bool> {
        transact(&self.gateway, compare, success).await
    }

    fn key(&self, what: &str, place: usize) -> String {
        encoded(format!("{}{what}/{place}", self.prefix))
    }
}

/// Makes the table of a pool without members. Returns what the pool says then.
async fn create(connection: &Connection, gateway: &Gateway) -> Result<u64> {
    let mut drawn = [0; 8];
    let drew = getrandom::fill(&mut drawn);
    drew.map_err(|error| gateway.error(&format!("no random number: {error}")))?;
    // No number that stands for something else.
    let mine = u64::from_le_bytes(drawn) | 1 << 63;
    let table = bytes_of(&Partitions::read(connection).await?);
    let key = encoded(format!("{}partitions", prefix(mine)));
    let is_new = json!([{ "key": key, "target": "CREATE", "create_revision": "0" }]);
    transact(gateway, is_new, json!([put(&key, table)])).await?;
    let keeper = keep(connection, mine).await?;
    if keeper != mine {
        // Another member was first.
        gateway
            .call("/v3/kv/deleterange", json!({ "key": key }))
            .await?;
    }
    Ok(keeper)
}

fn prefix(keeper: u64) -> String {
    format!("timberline/{keeper:016x}/")
}

fn put(key: &str, value: impl AsRef<[u8]>) -> Value {
    json!({ "request_put": { "key": key, "value": encoded(value) } })
}

async fn transact(gateway: &Gateway, compare: Value, success: Value) -> Result<bool> {
    let transaction = json!({ "compare": compare, "success": success });
    let answer = gateway.call("/v3/kv/txn", transaction).await?;
    Ok(answer["succeeded"].as_bool().unwrap_or(false))
}

fn bytes_of(partitions: &Partitions) -> Vec<u8> {
    let words = partitions.words().into_iter();
    words.flat_map(u64::to_le_bytes).collect()
}

fn partitions_of(bytes: &[u8]) -> Option<Partitions> {
    let (words, rest) = bytes.as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Partitions::of_words(&words).filter(|_| rest.is_empty())
}
