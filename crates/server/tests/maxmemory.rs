//! `CONFIG SET maxmemory`, in a process of its own: the server looks at what all of it takes.

mod client;

use client::{Folder, Running, encoded};

const MIB: u64 = 1 << 20;
const RECORDS: u64 = 6_000;
const BYTES: usize = 16 << 10;

/// A figure of INFO's.
fn figure(client: &mut client::Client<std::net::TcpStream>, name: &str) -> u64 {
    client.info("memory", name)
}

#[test]
fn less_memory_shrinks_the_cache_and_more_lets_it_grow() {
    timberline_tier::keep_large_blocks_apart();
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 1024 * MIB);
    let mut client = server.client();
    for nth in 0..RECORDS {
        let (key, value) = (nth.to_string(), vec![nth as u8; BYTES]);
        client.send(&encoded(&[b"SET", key.as_bytes(), &value]));
    }
    for _ in 0..RECORDS {
        assert_eq!(client.reply(), b"+OK\r\n");
    }
    let all = RECORDS * BYTES as u64;
    assert_eq!(client.says("SAVE"), "+OK\r\n");
    let before = figure(&mut client, "used_memory");
    assert!(before > all, "{before} bytes of memory");

    assert_eq!(client.says("CONFIG SET maxmemory 112mb"), "+OK\r\n");
    let shown = client.says("CONFIG GET maxmemory");
    assert!(shown.contains(&(112 * MIB).to_string()), "{shown}");
    // Five eighths are the store's, of which it keeps 32 MiB for what is on its way to the disk.
    let cached = figure(&mut client, "cached_bytes");
    assert!(cached <= 38 * MIB, "{cached} bytes are cached");
    let after = figure(&mut client, "used_memory");
    println!("{before} bytes of memory before, {after} after, of which {cached} are cached");
    assert!(after <= 112 * MIB, "{after} bytes of memory");
    // So writes are not refused.
    assert_eq!(client.says("SET new value"), "+OK\r\n");

    let read_all = |client: &mut client::Client<_>| {
        for nth in 0..RECORDS {
            let reply = client.ask(&format!("GET {nth}"));
            assert_eq!(reply[reply.len() - 3], nth as u8);
        }
        figure(client, "cached_bytes")
    };
    let cached = read_all(&mut client);
    assert!(cached <= 38 * MIB, "{cached} bytes are cached");
    assert_eq!(client.says("CONFIG SET maxmemory 1gb"), "+OK\r\n");
    read_all(&mut client);
    let cached = read_all(&mut client);
    assert!(cached > all / 4 * 3, "{cached} bytes are cached");

    for refused in ["0", "15mb", "many"] {
        let said = client.says(&format!("CONFIG SET maxmemory {refused}"));
        assert!(said.contains("at least 16mb"), "{said}");
    }
    // What stands before a setting that is refused is not set either.
    let said = client.says("CONFIG SET maxmemory 112mb databases 5");
    assert!(said.contains("'databases'"), "{said}");
    let shown = client.says("CONFIG GET maxmemory");
    assert!(shown.contains(&(1024 * MIB).to_string()), "{shown}");
    let cached = figure(&mut client, "cached_bytes");
    assert!(cached > all / 4 * 3, "{cached} bytes are cached");
}
