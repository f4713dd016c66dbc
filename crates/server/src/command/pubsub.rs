//! Messages to subscribers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Done, matches};
use crate::resp::Writer;
use crate::session::Session;
use crate::shared::Shared;

pub(super) fn subscribe(call: &mut Call) -> Done {
    for channel in call.args.iter().skip(1) {
        if call.session.channels.insert(channel.into()) {
            call.session.keep(channel);
            call.shared
                .pubsub
                .lock()
                .subscribe(channel, &call.session.client);
        }
        confirm(call, b"subscribe", Some(channel));
    }
    Ok(())
}

pub(super) fn psubscribe(call: &mut Call) -> Done {
    for pattern in call.args.iter().skip(1) {
        if call.session.patterns.insert(pattern.into()) {
            call.session.keep(pattern);
            call.shared
                .pubsub
                .lock()
                .psubscribe(pattern, &call.session.client);
        }
        confirm(call, b"psubscribe", Some(pattern));
    }
    Ok(())
}

pub(super) fn unsubscribe(call: &mut Call) -> Done {
    let named = call.args.iter().skip(1).map(<[u8]>::to_vec);
    let mut channels: Vec<Vec<u8>> = named.collect();
    if channels.is_empty() {
        channels = call.session.channels.iter().map(|it| it.to_vec()).collect();
    }
    if channels.is_empty() {
        confirm(call, b"unsubscribe", None);
    }
    for channel in channels {
        if call.session.channels.remove(&channel[..]) {
            call.session.forget(&channel);
            call.shared
                .pubsub
                .lock()
                .unsubscribe(&channel, call.session.client.id);
        }
        confirm(call, b"unsubscribe", Some(&channel));
    }
    Ok(())
}

pub(super) fn punsubscribe(call: &mut Call) -> Done {
    let named = call.args.iter().skip(1).map(<[u8]>::to_vec);
    let mut patterns: Vec<Vec<u8>> = named.collect();
    if patterns.is_empty() {
        patterns = call.session.patterns.iter().map(|it| it.to_vec()).collect();
    }
    if patterns.is_empty() {
        confirm(call, b"punsubscribe", None);
    }
    for pattern in patterns {
        if call.session.patterns.remove(&pattern[..]) {
            call.session.forget(&pattern);
            call.shared
                .pubsub
                .lock()
                .punsubscribe(&pattern, call.session.client.id);
        }
        confirm(call, b"punsubscribe", Some(&pattern));
    }
    Ok(())
}

fn confirm(call: &mut Call, kind: &[u8], name: Option<&[u8]>) {
    call.out.push(3);
    call.out.bulk(kind);
    call.out.bulk_or_null(name);
    let subscriptions = call.session.channels.len() + call.session.patterns.len();
    let client = &call.session.client;
    client.subscriptions.store(subscriptions, Relaxed);
    call.out.count(subscriptions);
}

/// Ends all subscriptions of a session.
pub(crate) fn leave(shared: &Shared, session: &mut Session) {
    if !session.is_subscribed() {
        return;
    }
    session.client.subscriptions.store(0, Relaxed);
    let mut pubsub = shared.pubsub.lock();
    for channel in std::mem::take(&mut session.channels) {
        pubsub.unsubscribe(&channel, session.client.id);
        session.forget(&channel);
    }
    for pattern in std::mem::take(&mut session.patterns) {
        pubsub.punsubscribe(&pattern, session.client.id);
        session.forget(&pattern);
    }
    if session.client.shards.load(Relaxed) > 0 {
        for channel in pubsub.shards_of(session.client.id) {
            pubsub.sunsubscribe(&channel, &session.client);
        }
    }
}

pub(super) fn publish(call: &mut Call) -> Done {
    let (channel, message) = (call.arg(1), call.arg(2));
    let receivers = deliver(call.shared, channel, message);
    if call.keyspace().node().is_some() {
        call.shared.bus.publish(channel, message);
    }
    call.out.integer(receivers);
    Ok(())
}

/// Sends a message to the subscribers of this server, and says how many there are.
pub(super) fn deliver(shared: &Shared, channel: &[u8], message: &[u8]) -> i64 {
    let mut receivers = 0;
    let pubsub = shared.pubsub.lock();
    for client in pubsub.subscribers(channel) {
        client.send(|out: &mut Writer| send(out, b"message", channel, message));
        receivers += 1;
    }
    for (pattern, clients) in pubsub.patterns() {
        if !matches(pattern, channel) {
            continue;
        }
        for client in clients {
            client.send(|out: &mut Writer| {
                out.push(4);
                out.bulk(b"pmessage");
                out.bulk(pattern);
                out.bulk(channel);
                out.bulk(message);
            });
            receivers += 1;
        }
    }
    receivers
}

fn send(out: &mut Writer, kind: &[u8], channel: &[u8], message: &[u8]) {
    out.push(3);
    out.bulk(kind);
    out.bulk(channel);
    out.bulk(message);
}

pub(super) fn ssubscribe(call: &mut Call) -> Done {
    for channel in call.args.iter().skip(1) {
        let client = &call.session.client;
        call.shared.pubsub.lock().ssubscribe(channel, client);
        confirm_shard(call, b"ssubscribe", Some(channel));
    }
    Ok(())
}

pub(super) fn sunsubscribe(call: &mut Call) -> Done {
    let client = Arc::clone(&call.session.client);
    let named = call.args.iter().skip(1).map(Box::from);
    let mut channels: Vec<Box<[u8]>> = named.collect();
    if channels.is_empty() {
        channels = call.shared.pubsub.lock().shards_of(client.id);
    }
    if channels.is_empty() {
        confirm_shard(call, b"sunsubscribe", None);
    }
    for channel in channels {
        call.shared.pubsub.lock().sunsubscribe(&channel, &client);
        confirm_shard(call, b"sunsubscribe", Some(&channel));
    }
    Ok(())
}

fn confirm_shard(call: &mut Call, kind: &[u8], name: Option<&[u8]>) {
    call.out.push(3);
    call.out.bulk(kind);
    call.out.bulk_or_null(name);
    call.out.count(call.session.client.shards.load(Relaxed));
}

/// Sends a message to the subscribers of a channel that has a slot, at the node that has it.
pub(super) fn spublish(call: &mut Call) -> Done {
    let (channel, message) = (call.arg(1), call.arg(2));
    let mut receivers = 0;
    for client in call.shared.pubsub.lock().shard_subscribers(channel) {
        client.send(|out: &mut Writer| send(out, b"smessage", channel, message));
        receivers += 1;
    }
    call.out.integer(receivers);
    Ok(())
}

pub(super) fn pubsub(call: &mut Call) -> Done {
    let sub = call.arg(1).to_ascii_lowercase();
    let pubsub = call.shared.pubsub.lock();
    match (&sub[..], call.args.len()) {
        (b"channels" | b"shardchannels", 2 | 3) => {
            let pattern = call.args.get(2);
            let all: Vec<&[u8]> = match sub[0] {
                b's' => pubsub.shards().collect(),
                _ => pubsub.channels().collect(),
            };
            let listed: Vec<&[u8]> = all
                .into_iter()
                .filter(|it| pattern.is_none_or(|pattern| matches(pattern, it)))
                .collect();
            call.out.array(listed.len());
            for channel in listed {
                call.out.bulk(channel);
            }
        }
        (b"numsub", _) => {
            call.out.array(2 * (call.args.len() - 2));
            for channel in call.args.iter().skip(2) {
                call.out.bulk(channel);
                call.out.count(pubsub.subscribers(channel).count());
            }
        }
        (b"shardnumsub", _) => {
            call.out.array(2 * (call.args.len() - 2));
            for channel in call.args.iter().skip(2) {
                call.out.bulk(channel);
                call.out.count(pubsub.shard_subscribers(channel).count());
            }
        }
        (b"numpat", 2) => call.out.count(pubsub.patterns().count()),
        _ => return call.help_or_unknown(),
    }
    Ok(())
}
