//! The cluster: which node serves a command, and what `CLUSTER` says.

use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use timberline_remote::ComputeId;

use super::row::Handler;
use super::scan::{Options, is_kind, options};
use super::{Args, Call, Command, Done, Failure, matches};
use crate::cluster::{Held, Map, Node, SLOTS, name_of, places_of, slot_of};
use crate::keyspace::Entry;
use crate::session::Session;

/// Added to a node's port, the one of Redis' bus between nodes, which is not there.
const BUS: u32 = 10_000;
/// Keys that are read at a time.
const AT_ONCE: usize = 512;

/// Whether a cluster has a command.
pub(super) fn serves(command: &Command) -> bool {
    let keys = ["string", "hash", "set", "sorted-set", "list", "generic"];
    let others = ["connection", "transactions", "pubsub", "server", "cluster"];
    keys.contains(&command.group) || others.contains(&command.group)
}

/// Holds the slot of a command's keys; of those of a transaction that it executes.
///
/// # Errors
/// The keys are of several slots, or another node has theirs: what to tell the client.
pub(super) async fn hold<'a>(
    node: &'a Node,
    session: &Session,
    command: &Command,
    args: Args<'_>,
) -> Result<Option<Held<'a>>, String> {
    let mut slots = command
        .keys
        .of(args)
        .into_iter()
        .map(slot_of)
        .collect::<Vec<_>>();
    if command.name == "exec"
        && let Some(transaction) = &session.transaction
    {
        slots.extend(transaction.keys().into_iter().map(slot_of));
        slots.extend(session.watched.iter().map(|it| slot_of(&it.key)));
    }
    let Some(&slot) = slots.first() else {
        return Ok(None);
    };
    if slots.iter().any(|it| *it != slot) {
        return Err("CROSSSLOT Keys in request don't hash to the same slot".into());
    }
    let held = node.hold(slot).await;
    held.map(Some).map_err(|refused| refused.to_string())
}

/// What runs a command in a cluster, where keys are in other servers' memory.
pub(super) fn handler(command: &Command) -> Handler {
    match (command.name, command.handler) {
        ("scan", _) => Handler::Later(|call| Box::pin(scan(call))),
        ("keys", _) => Handler::Later(|call| Box::pin(keys(call))),
        ("randomkey", _) => Handler::Later(|call| Box::pin(randomkey(call))),
        ("dbsize", _) => Handler::Later(|call| Box::pin(dbsize(call))),
        ("flushall" | "flushdb", _) => Handler::Later(|call| Box::pin(flush(call))),
        (_, Handler::Quick(_, run)) => Handler::Later(run),
        (_, handler) => handler,
    }
}

/// What an error of the memory servers says to a client.
pub(super) fn text(error: &timberline_remote::Error) -> String {
    use timberline_remote::Error::{Fenced, NotOwned, PoolFull};
    match error {
        PoolFull(_) => format!("OOM {error}, and so are the others"),
        // It was not done, and the next node does it.
        Fenced => format!("CLUSTERDOWN {error}"),
        NotOwned(_) => "TRYAGAIN the slot is changing hands".into(),
        error => format!("ERR {error}"),
    }
}

fn node<'a>(call: &Call<'a>) -> Result<&'a Node, Failure> {
    call.shared.keyspace.node().ok_or(Failure::fixed(
        "ERR This instance has cluster support disabled",
    ))
}

/// `READONLY`, `READWRITE`, `ASKING`: there are no replicas, and a slot moves at once.
pub(super) fn accept(call: &mut Call) -> Done {
    node(call)?;
    call.out.ok();
    Ok(())
}

pub(super) async fn cluster(call: &mut Call<'_>) -> Done {
    let node = node(call)?;
    let sub = call.arg(1).to_ascii_lowercase();
    match (&sub[..], call.args.len()) {
        (b"info", 2) => call.out.verbatim(info(node).as_bytes()),
        (b"myid", 2) => call.out.bulk(node.name().as_bytes()),
        (b"nodes", 2) => {
            let lines = lines(node, &node.map());
            call.out.verbatim(lines.as_bytes());
        }
        (b"slots", 2) => slots(call, &node.map()),
        (b"shards", 2) => shards(call, &node.map()),
        (b"links", 2) => call.out.array(0),
        (b"replicas" | b"slaves", 3) => call.out.array(0),
        (b"keyslot", 3) => call.out.integer(slot_of(call.arg(2)).into()),
        (b"countkeysinslot", 3) => {
            let slot = slot(call, 2)?;
            let count = match is_mine(node, slot) {
                true => node.records().count(places_of(&(slot..=slot))).await?,
                false => 0,
            };
            call.out.integer(count as i64);
        }
        (b"getkeysinslot", 4) => {
            let (slot, most) = (slot(call, 2)?, call.integer(3)?);
            let most = usize::try_from(most).ok();
            let most = most.ok_or(Failure::fixed("ERR Invalid number of keys"))?;
            let places = places_of(&(slot..=slot));
            let mut listed = Vec::new();
            if is_mine(node, slot) && most > 0 {
                (listed, _) = node
                    .records()
                    .list(places, most.min(1 << 20), false)
                    .await?;
            }
            listed.truncate(most);
            call.out.array(listed.len());
            for (_, record) in &listed {
                call.out.bulk(&record.key);
            }
        }
        // Of another node: it has been published there.
        (b"publish", 4) => {
            call.session.client.is_node.store(true, Relaxed);
            let receivers = super::pubsub::deliver(call.shared, call.arg(2), call.arg(3));
            call.out.integer(receivers);
        }
        (b"migrateslots", 6..) => return migrate(call, node).await,
        (
            b"meet" | b"forget" | b"reset" | b"addslots" | b"delslots" | b"setslot" | b"failover"
            | b"replicate" | b"addslotsrange" | b"delslotsrange" | b"flushslots",
            _,
        ) => {
            return Err(Failure::fixed(
                "ERR nodes come and go by themselves; slots move by CLUSTER MIGRATESLOTS \
                 SLOTSRANGE first last NODE id",
            ));
        }
        (
            b"info" | b"myid" | b"nodes" | b"slots" | b"shards" | b"links" | b"replicas"
            | b"slaves" | b"keyslot" | b"countkeysinslot" | b"getkeysinslot" | b"migrateslots"
            | b"publish",
            _,
        ) => return Err(call.wrong_arity(&String::from_utf8_lossy(&sub))),
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

/// `CLUSTER MIGRATESLOTS SLOTSRANGE first last [first last …] NODE id`, as Valkey has it; the reply
/// comes when the slots are the other node's.
async fn migrate(call: &mut Call<'_>, node: &Node) -> Done {
    let last = call.args.len() - 2;
    if !call.is(2, "slotsrange") || !call.is(last, "node") || !(last - 3).is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let mut ranges = Vec::new();
    for at in (3..last).step_by(2) {
        let slots = slot(call, at)?..=slot(call, at + 1)?;
        if slots.is_empty() {
            return Err(Failure::fixed("ERR a range of slots ends before it begins"));
        }
        if let Some(slot) = slots.clone().find(|slot| !is_mine(node, *slot)) {
            return Err(Failure::said(format!("ERR slot {slot} is not this node's")));
        }
        ranges.push(slots);
    }
    node.refresh(true).await?;
    let wanted = String::from_utf8_lossy(call.arg(last + 1)).to_lowercase();
    let map = node.map();
    let found = map.nodes.iter().find(|it| name_of(it.0) == wanted);
    let to = found
        .ok_or_else(|| Failure::said(format!("ERR Unknown node {wanted}")))?
        .0;
    if to == node.id() {
        return Err(Failure::fixed("ERR this node has the slots already"));
    }
    for slots in ranges {
        let given = node.hand_over(&slots, to).await;
        crate::cluster::moved(call.shared, node);
        given?;
    }
    call.out.ok();
    Ok(())
}

fn slot(call: &Call, at: usize) -> Result<u16, Failure> {
    let slot = crate::resp::integer(call.arg(at)).and_then(|it| u16::try_from(it).ok());
    let slot = slot.filter(|it| *it < SLOTS);
    slot.ok_or(Failure::fixed("ERR Invalid or out of range slot"))
}

fn is_mine(node: &Node, slot: u16) -> bool {
    node.map().owner(slot) == Some(node.id())
}

fn info(node: &Node) -> String {
    let map = node.map();
    let assigned: usize = map.ranges().iter().map(|it| it.0.len()).sum();
    let size = map
        .nodes
        .iter()
        .filter(|it| !map.ranges_of(it.0).is_empty());
    let state = match assigned == usize::from(SLOTS) && !node.is_dead() {
        true => "ok",
        false => "fail",
    };
    let mut text = String::new();
    for (name, value) in [
        ("cluster_enabled", "1".to_string()),
        ("cluster_state", state.into()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", assigned.to_string()),
        ("cluster_slots_pfail", "0".into()),
        ("cluster_slots_fail", "0".into()),
        ("cluster_known_nodes", map.nodes.len().to_string()),
        ("cluster_size", size.count().to_string()),
        ("cluster_current_epoch", map.version.to_string()),
        ("cluster_my_epoch", map.version.to_string()),
        ("cluster_balance", node.balance.name().into()),
        ("cluster_balance_moves", node.moves().to_string()),
    ] {
        // Writing to memory does not fail.
        let _ = write!(text, "{name}:{value}\r\n");
    }
    text
}

/// Nodes that clients can reach.
fn reachable(map: &Map) -> impl Iterator<Item = (ComputeId, SocketAddr)> {
    map.nodes
        .iter()
        .filter_map(|&(node, address)| Some((node, address?)))
}

/// The lines of `CLUSTER NODES`.
fn lines(node: &Node, map: &Map) -> String {
    let mut text = String::new();
    for (id, address) in reachable(map) {
        let flags = match id == node.id() {
            true => "myself,master",
            false => "master",
        };
        let bus = u32::from(address.port()) + BUS;
        let (id_text, ip, port) = (name_of(id), address.ip(), address.port());
        let version = map.version;
        let _ = write!(
            text,
            "{id_text} {ip}:{port}@{bus} {flags} - 0 0 {version} connected"
        );
        for slots in map.ranges_of(id) {
            let _ = match slots.len() {
                1 => write!(text, " {}", slots.start()),
                _ => write!(text, " {}-{}", slots.start(), slots.end()),
            };
        }
        text.push('\n');
    }
    text
}

fn slots(call: &mut Call, map: &Map) {
    let served = map.ranges().into_iter();
    let served: Vec<_> = served
        .filter_map(|(slots, owner)| Some((slots, owner, map.address(owner)?)))
        .collect();
    let out = &mut *call.out;
    out.array(served.len());
    for (slots, owner, address) in served {
        out.array(3);
        out.integer((*slots.start()).into());
        out.integer((*slots.end()).into());
        out.array(4);
        out.bulk(address.ip().to_string().as_bytes());
        out.integer(address.port().into());
        out.bulk(name_of(owner).as_bytes());
        out.array(0);
    }
}

fn shards(call: &mut Call, map: &Map) {
    let nodes: Vec<_> = reachable(map).collect();
    let out = &mut *call.out;
    out.array(nodes.len());
    for (node, address) in nodes {
        let ranges: Vec<RangeInclusive<u16>> = map.ranges_of(node);
        out.map(2);
        out.bulk(b"slots");
        out.array(2 * ranges.len());
        for slots in ranges {
            out.integer((*slots.start()).into());
            out.integer((*slots.end()).into());
        }
        out.bulk(b"nodes");
        out.array(1);
        out.map(7);
        let ip = address.ip().to_string();
        out.bulk(b"id");
        out.bulk(name_of(node).as_bytes());
        out.bulk(b"port");
        out.integer(address.port().into());
        for (field, value) in [("ip", &ip[..]), ("endpoint", &ip), ("role", "master")] {
            out.bulk(field.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"replication-offset");
        out.integer(0);
        out.bulk(b"health");
        out.bulk(b"online");
    }
}

/// The records of this node from a place on, those of about so many places; and where to go on.
async fn records_from(
    node: &Node,
    place: u64,
    most: usize,
) -> Result<(Vec<(Vec<u8>, Entry)>, Option<u64>), Failure> {
    let owned = node.records().member().tree().partitions();
    let mut rest = owned.into_iter().skip_while(|it| *it.end() < place);
    let Some(places) = rest.next() else {
        return Ok((Vec::new(), None));
    };
    let places = place.max(*places.start())..=*places.end();
    let (listed, next) = node.records().list(places, most, false).await?;
    let next = next.or_else(|| rest.next().map(|it| *it.start()));
    let listed = listed.into_iter();
    let entries = listed.map(|(_, it)| (it.key, Entry::new(crate::cluster::record_of(it.value))));
    Ok((entries.collect(), next))
}

/// Keys that did not expire and match.
fn chosen(call: &Call, entries: Vec<(Vec<u8>, Entry)>, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
    let lives = |it: &Entry| it.expires.is_none_or(|at| at > call.now);
    let entries = entries.into_iter().filter(|it| lives(&it.1)).map(|it| it.0);
    let wanted = |key: &Vec<u8>| pattern.is_none_or(|it| matches(it, key));
    entries.filter(wanted).collect()
}

/// `SCAN` of this node's keys, in the order of their places; the cursor is the next one.
async fn scan(call: &mut Call<'_>) -> Done {
    let node = node(call)?;
    let digits = std::str::from_utf8(call.arg(1)).ok();
    let place = digits.and_then(|it| it.parse().ok());
    let place = place.ok_or(Failure::fixed("ERR invalid cursor"))?;
    let Options {
        pattern,
        count,
        kind,
    } = options(call, 2, true)?;
    let (mut entries, next) = records_from(node, place, count).await?;
    entries.retain(|it| kind.is_none_or(|kind| is_kind(&it.1, kind)));
    let listed = chosen(call, entries, pattern);
    super::scan::reply(call, next.unwrap_or(0), &listed)
}

async fn keys(call: &mut Call<'_>) -> Done {
    let node = node(call)?;
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(place) = next {
        let (entries, rest) = records_from(node, place, AT_ONCE).await?;
        all.extend(chosen(call, entries, Some(call.arg(1))));
        next = rest;
    }
    call.out.array(all.len());
    for key in &all {
        call.out.bulk(key);
    }
    Ok(())
}

/// The first of this node's keys from a random place on: keys behind gaps are preferred.
async fn randomkey(call: &mut Call<'_>) -> Done {
    let node = node(call)?;
    let owned = node.records().member().tree().partitions();
    if let Some(places) = fastrand::choice(&owned) {
        let mut next = Some(fastrand::u64(places.clone()));
        let mut goes_round = true;
        while let Some(place) = next {
            let (entries, rest) = records_from(node, place, AT_ONCE).await?;
            let living = chosen(call, entries, None);
            if let Some(key) = living.first() {
                call.out.bulk(key);
                return Ok(());
            }
            next = rest.or(goes_round.then_some(0));
            goes_round &= rest.is_some();
        }
    }
    call.out.null();
    Ok(())
}

/// Counts this node's keys: O(keys), unlike elsewhere.
async fn dbsize(call: &mut Call<'_>) -> Done {
    let records = node(call)?.records();
    let mut count = 0;
    for places in records.member().tree().partitions() {
        count += records.count(places).await?;
    }
    call.out.integer(count as i64);
    Ok(())
}

/// Removes this node's keys, whose locks it has.
async fn flush(call: &mut Call<'_>) -> Done {
    super::keys::check_flush(call)?;
    let node = node(call)?;
    let mut next = Some(0);
    while let Some(place) = next {
        let (entries, rest) = records_from(node, place, AT_ONCE).await?;
        let mut changes = call.keyspace().changes();
        for (key, entry) in &entries {
            changes.remove_entry(key, entry);
        }
        changes.commit().await?;
        next = rest;
    }
    call.out.ok();
    Ok(())
}
