//! Who subscribes to what.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::client::Client;
use crate::session::bytes_of;
use crate::shared::millis_since_1970;

type Subscribers = BTreeMap<u64, Arc<Client>>;

/// All subscriptions.
#[derive(Default)]
pub(crate) struct Channels(Mutex<Subscriptions>);

#[derive(Default)]
pub(crate) struct Subscriptions {
    channels: HashMap<Box<[u8]>, Subscribers>,
    patterns: HashMap<Box<[u8]>, Subscribers>,
    /// Channels that have slots, as keys do.
    shards: HashMap<Box<[u8]>, Subscribers>,
}

impl Channels {
    pub fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl Subscriptions {
    pub fn subscribe(&mut self, channel: &[u8], client: &Arc<Client>) {
        add(&mut self.channels, channel, client);
    }

    pub fn psubscribe(&mut self, pattern: &[u8], client: &Arc<Client>) {
        add(&mut self.patterns, pattern, client);
    }

    pub fn unsubscribe(&mut self, channel: &[u8], id: u64) {
        remove(&mut self.channels, channel, id);
    }

    pub fn punsubscribe(&mut self, pattern: &[u8], id: u64) {
        remove(&mut self.patterns, pattern, id);
    }

    /// Subscribes to a channel that has a slot.
    pub fn ssubscribe(&mut self, channel: &[u8], client: &Arc<Client>) {
        if !self.is_in_shard(channel, client.id) {
            add(&mut self.shards, channel, client);
            client.shards.fetch_add(1, Relaxed);
            client.shard_bytes.fetch_add(bytes_of(channel), Relaxed);
        }
    }

    pub fn sunsubscribe(&mut self, channel: &[u8], client: &Client) {
        if self.is_in_shard(channel, client.id) {
            remove(&mut self.shards, channel, client.id);
            client.shards.fetch_sub(1, Relaxed);
            client.shard_bytes.fetch_sub(bytes_of(channel), Relaxed);
        }
    }

    fn is_in_shard(&self, channel: &[u8], id: u64) -> bool {
        let subscribers = self.shards.get(channel);
        subscribers.is_some_and(|it| it.contains_key(&id))
    }

    /// The channels with slots that a client subscribes to.
    pub fn shards_of(&self, id: u64) -> Vec<Box<[u8]>> {
        let shards = self.shards.iter();
        let shards = shards.filter(|it| it.1.contains_key(&id));
        shards.map(|it| it.0.clone()).collect()
    }

    /// Channels that have slots and subscribers.
    pub fn shards(&self) -> impl Iterator<Item = &[u8]> {
        self.shards.keys().map(|it| &it[..])
    }

    /// Those who subscribe to a channel that has a slot.
    pub fn shard_subscribers(&self, channel: &[u8]) -> impl Iterator<Item = &Arc<Client>> {
        let subscribers = self.shards.get(channel).into_iter();
        subscribers.flat_map(BTreeMap::values)
    }

    /// Ends the subscriptions of channels whose slots are another node's now, and tells that to the
    /// subscribers.
    pub fn keep_shards(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        let gone = self.shards.extract_if(|channel, _| !is_kept(channel));
        for (channel, subscribers) in gone {
            for client in subscribers.values() {
                client.note_activity(millis_since_1970());
                let left = client.shards.fetch_sub(1, Relaxed) - 1;
                client.shard_bytes.fetch_sub(bytes_of(&channel), Relaxed);
                client.send(|out| {
                    out.push(3);
                    out.bulk(b"sunsubscribe");
                    out.bulk(&channel);
                    out.count(left);
                });
            }
        }
    }

    /// Channels with subscribers.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.keys().map(|it| &it[..])
    }

    /// Those who subscribe to a channel by its name.
    pub fn subscribers(&self, channel: &[u8]) -> impl Iterator<Item = &Arc<Client>> {
        self.channels
            .get(channel)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Patterns with their subscribers.
    pub fn patterns(&self) -> impl Iterator<Item = (&[u8], impl Iterator<Item = &Arc<Client>>)> {
        self.patterns
            .iter()
            .map(|(pattern, clients)| (&pattern[..], clients.values()))
    }
}

fn add(all: &mut HashMap<Box<[u8]>, Subscribers>, name: &[u8], client: &Arc<Client>) {
    all.entry(name.into())
        .or_default()
        .insert(client.id, Arc::clone(client));
}

fn remove(all: &mut HashMap<Box<[u8]>, Subscribers>, name: &[u8], id: u64) {
    if let Some(clients) = all.get_mut(name) {
        clients.remove(&id);
        if clients.is_empty() {
            all.remove(name);
        }
    }
}
