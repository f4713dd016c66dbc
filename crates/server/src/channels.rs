//! Who subscribes to what.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::client::Client;

type Subscribers = BTreeMap<u64, Arc<Client>>;

/// All subscriptions.
#[derive(Default)]
pub(crate) struct Channels(Mutex<Subscriptions>);

#[derive(Default)]
pub(crate) struct Subscriptions {
    channels: HashMap<Box<[u8]>, Subscribers>,
    patterns: HashMap<Box<[u8]>, Subscribers>,
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
