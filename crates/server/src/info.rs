//! What `INFO` says.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::shared::Shared;

/// Writes the lines of a section.
type Section = fn(&Shared, &mut String);

/// All sections, by name.
pub(crate) const SECTIONS: [(&str, Section); 9] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(text, "{name}:{value}\r\n");
}

/// A figure in bytes, and the same for people, as Redis shows it.
fn bytes(text: &mut String, name: &str, value: u64) {
    line(text, name, value);
    const UNITS: [&str; 4] = ["K", "M", "G", "T"];
    let (mut shown, mut unit) = (value as f64, "B");
    for larger in UNITS {
        if shown < 1024.0 {
            break;
        }
        (shown, unit) = (shown / 1024.0, larger);
    }
    let shown = match unit {
        "B" => format!("{value}B"),
        _ => format!("{shown:.2}{unit}"),
    };
    line(text, &format!("{name}_human"), shown);
}

fn server(shared: &Shared, text: &mut String) {
    line(text, "redis_version", crate::REDIS_VERSION);
    line(text, "timberline_version", env!("CARGO_PKG_VERSION"));
    let mode = match shared.keyspace.node() {
        Some(_) => "cluster",
        None => "standalone",
    };
    line(text, "redis_mode", mode);
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    let port = shared
        .config
        .options
        .listen
        .first()
        .map_or(0, |it| it.port());
    line(text, "tcp_port", port);
    let seconds = shared.started.elapsed().as_secs();
    line(text, "uptime_in_seconds", seconds);
    line(text, "uptime_in_days", seconds / 86400);
    line(text, "threads", shared.config.options.threads);
}

fn clients(shared: &Shared, text: &mut String) {
    line(text, "connected_clients", shared.client_count());
    line(text, "blocked_clients", shared.keyspace.waiting.count());
    line(text, "maxclients", shared.config.max_clients.load(Relaxed));
}

fn memory(shared: &Shared, text: &mut String) {
    shared.measure_memory();
    let resident = shared.resident.load(Relaxed);
    bytes(text, "used_memory", resident);
    bytes(text, "used_memory_rss", resident);
    bytes(text, "used_memory_peak", shared.peak.load(Relaxed));
    bytes(text, "maxmemory", shared.config.memory.limit.load(Relaxed));
    line(text, "maxmemory_policy", shared.config.options.policy());
    let stats = shared.keyspace.store().stats();
    line(text, "cached_bytes", stats.cached_bytes);
    line(text, "index_bytes", stats.index_bytes);
    line(
        text,
        "mem_clients_normal",
        shared.config.memory.buffers.load(Relaxed),
    );
}

fn persistence(shared: &Shared, text: &mut String) {
    let stats = shared.keyspace.store().stats();
    line(text, "loading", 0);
    line(
        text,
        "durability",
        shared.config.options.durability.appendfsync(),
    );
    // Redis counts changes since its last dump; here they are records that are not on the disk yet.
    let since = stats.appended - stats.durable;
    line(text, "rdb_changes_since_last_save", since);
    line(text, "records_appended", stats.appended);
    line(text, "records_durable", stats.durable);
    line(text, "segments", stats.segments);
    line(
        text,
        "segments_live_fraction",
        format_args!("{:.3}", stats.live),
    );
    line(text, "segments_cleaned", stats.cleaned);
    line(text, "records_moved", stats.moved);
    line(text, "checkpoints", stats.checkpoints);
}

fn stats(shared: &Shared, text: &mut String) {
    let stats = &shared.stats;
    line(
        text,
        "total_connections_received",
        stats.connections.load(Relaxed),
    );
    let counts = stats.counts();
    line(text, "total_commands_processed", counts.commands);
    line(
        text,
        "instantaneous_ops_per_sec",
        stats.commands_a_second.load(Relaxed),
    );
    line(text, "total_net_input_bytes", stats.received.load(Relaxed));
    line(text, "total_net_output_bytes", stats.sent.load(Relaxed));
    line(text, "rejected_connections", stats.refused.load(Relaxed));
    line(
        text,
        "evicted_clients",
        shared.config.memory.disconnected.load(Relaxed),
    );
    line(text, "keyspace_hits", counts.hits);
    line(text, "keyspace_misses", counts.misses);
    let store = shared.keyspace.store().stats();
    line(text, "evicted_keys", store.evicted);
    line(text, "records_found_in_memory", store.found_in_memory);
    line(text, "records_read_from_disk", store.read_from_disk);
    line(text, "expired_keys", shared.keyspace.expired.load(Relaxed));
}

/// There are no replicas; clients ask for the role.
fn replication(_: &Shared, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
}

fn cpu(_: &Shared, text: &mut String) {
    let [user, system] = crate::cpu::used_seconds();
    line(text, "used_cpu_sys", format_args!("{system:.6}"));
    line(text, "used_cpu_user", format_args!("{user:.6}"));
}

fn cluster(shared: &Shared, text: &mut String) {
    let enabled = shared.keyspace.node().is_some();
    line(text, "cluster_enabled", u8::from(enabled));
    if let Some(node) = shared.keyspace.node() {
        let counts = node.records().member().tree().counts();
        line(text, "pool_reads", counts.reads);
        line(text, "pool_writes", counts.writes);
        line(text, "pool_atomics", counts.atomics);
        line(text, "pool_calls", counts.calls);
        line(text, "pool_bytes", counts.bytes);
        line(text, "cluster_balance", node.balance.name());
        line(text, "cluster_balance_moves", node.moves());
    }
}

fn keyspace(shared: &Shared, text: &mut String) {
    if !shared.keyspace.is_empty() {
        let (keys, timers) = (shared.keyspace.len(), shared.keyspace.timers());
        // A key whose time was changed has two timers until the first one is over.
        let expires = timers.min(keys);
        let line_of_all = format_args!("keys={keys},expires={expires},avg_ttl=0");
        line(text, "db0", line_of_all);
    }
}
