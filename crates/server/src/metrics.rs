//! Figures for Prometheus, and whether the server is well, over HTTP.

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::shared::Shared;

/// Bytes of a request at most: it is a line and some headers.
const LONGEST: usize = 8 << 10;
/// A client that takes longer to send its request or to read the answer is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// The content type of the text format that Prometheus reads.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers requests until the server stops.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answered = answer(Arc::clone(&shared), stream);
                tokio::task::spawn_local(tokio::time::timeout(PATIENCE, answered));
            }
            // Too many files are open, for example: that passes.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One request and its answer; the connection ends then.
async fn answer(shared: Arc<Shared>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= LONGEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let mut words = line.split(' ');
    let (status, content_type, body) = match (words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", TEXT, metrics(&shared)),
        (Some("GET" | "HEAD"), Some("/health")) => match shared.keyspace.store().failure() {
            None => ("200 OK", "text/plain", "ok\n".to_owned()),
            Some(why) => ("503 Service Unavailable", "text/plain", format!("{why}\n")),
        },
        (Some("GET" | "HEAD"), _) => {
            let known = "possible: /metrics, /health\n".to_owned();
            ("404 Not Found", "text/plain", known)
        }
        _ => {
            let known = "possible: GET\n".to_owned();
            ("405 Method Not Allowed", "text/plain", known)
        }
    };
    let length = body.len();
    let body = if line.starts_with("HEAD") { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Adds a figure, as Prometheus reads it.
fn figure(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    // Writing to memory does not fail.
    let _ = writeln!(
        text,
        "# HELP timberline_{name} {help}\n# TYPE timberline_{name} {kind}\ntimberline_{name} {value}"
    );
}

fn metrics(shared: &Shared) -> String {
    shared.measure_memory();
    let (stats, counts) = (&shared.stats, shared.stats.counts());
    let store = shared.keyspace.store().stats();
    let disk = shared.keyspace.store().disk().counts();
    let mut text = String::new();
    let mut gauge = |name, help, value: f64| figure(&mut text, name, "gauge", help, value);
    let resident = shared.resident.load(Relaxed) as f64;
    let limit = shared.config.memory.limit.load(Relaxed) as f64;
    gauge(
        "uptime_seconds",
        "Since the start.",
        shared.started.elapsed().as_secs_f64(),
    );
    gauge(
        "keys",
        "Keys, those expired and not yet removed included.",
        shared.keyspace.len() as f64,
    );
    gauge(
        "connected_clients",
        "Connections now.",
        shared.client_count() as f64,
    );
    gauge("memory_resident_bytes", "Memory of the process.", resident);
    gauge("memory_limit_bytes", "What it may take.", limit);
    gauge(
        "client_buffers_bytes",
        "Buffers of connections.",
        shared.config.memory.buffers.load(Relaxed) as f64,
    );
    gauge(
        "store_segments",
        "Segments on the disk.",
        store.segments as f64,
    );
    gauge(
        "store_live_fraction",
        "Part of their records that still count.",
        store.live,
    );
    gauge(
        "store_cached_bytes",
        "Values that are cached in memory.",
        store.cached_bytes as f64,
    );
    gauge(
        "store_index_bytes",
        "Memory of the index.",
        store.index_bytes as f64,
    );
    let failed = shared.keyspace.store().failure().is_some();
    gauge(
        "store_failed",
        "1 if the store takes no more writes.",
        f64::from(u8::from(failed)),
    );
    gauge(
        "store_unsaved_records",
        "Records that are not on the disk yet.",
        (store.appended - store.durable) as f64,
    );
    gauge(
        "store_lost_values_at_open",
        "Values of which pieces were gone when the store was opened.",
        shared.report.lost.len() as f64,
    );
    gauge(
        "store_lost_bytes_at_open",
        "Bytes of records that were damaged when the store was opened.",
        shared.report.damaged_bytes as f64,
    );
    let mut counter = |name, help, value: u64| figure(&mut text, name, "counter", help, value);
    counter("commands_total", "Commands processed.", counts.commands);
    counter(
        "keyspace_hits_total",
        "Keys that reading commands found.",
        counts.hits,
    );
    counter(
        "keyspace_misses_total",
        "Keys that reading commands did not find.",
        counts.misses,
    );
    counter(
        "cache_hits_total",
        "Records that were in memory when they were read.",
        store.found_in_memory,
    );
    counter(
        "cache_misses_total",
        "Records that were read from the disk.",
        store.read_from_disk,
    );
    counter(
        "evicted_keys_total",
        "Keys that went since there was no more space or memory (--evict).",
        store.evicted,
    );
    counter("disk_reads_total", "Reads of files.", disk.reads);
    counter("disk_read_bytes_total", "Bytes read.", disk.read_bytes);
    counter("disk_writes_total", "Writes to files.", disk.writes);
    counter(
        "disk_written_bytes_total",
        "Bytes written.",
        disk.written_bytes,
    );
    counter("disk_syncs_total", "Syncs of files.", disk.syncs);
    counter(
        "connections_total",
        "Connections taken.",
        stats.connections.load(Relaxed),
    );
    counter(
        "connections_refused_total",
        "Connections refused.",
        stats.refused.load(Relaxed),
    );
    counter(
        "evicted_clients_total",
        "Connections ended since their buffers took too much memory.",
        shared.config.memory.disconnected.load(Relaxed),
    );
    counter(
        "received_bytes_total",
        "Bytes from clients.",
        stats.received.load(Relaxed),
    );
    counter(
        "sent_bytes_total",
        "Bytes to clients.",
        stats.sent.load(Relaxed),
    );
    counter(
        "expired_keys_total",
        "Keys removed after their time.",
        shared.keyspace.expired.load(Relaxed),
    );
    counter(
        "store_cleaned_segments_total",
        "Segments cleaned.",
        store.cleaned,
    );
    counter(
        "store_moved_records_total",
        "Records that cleaning moved.",
        store.moved,
    );
    counter(
        "store_checkpoints_total",
        "Checkpoints written.",
        store.checkpoints,
    );
    text
}
