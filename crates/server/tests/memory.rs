//! Memory for clients, in a process of its own: the server looks at what all of it takes.

mod client;

use client::{Folder, Running};

const MIB: usize = 1 << 20;

/// With little memory, what would take too much is refused, and others go on.
#[test]
fn who_wants_more_than_there_is_for_clients_is_refused() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.memory = 512 << 20);
    let mut client = server.client();
    let part = vec![7; 20 * MIB];
    for _ in 0..3 {
        client.command(&[b"APPEND", b"key", &part]);
    }
    // One copy fits, more do not.
    assert!(client.ask("GET key") == bulk(&part.repeat(3)));
    let refused = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(client.ask("MGET key key key"), refused);
    assert_eq!(client.ask("RENAME key other"), refused);
    assert_eq!(client.ask("GETRANGE key 0 9"), bulk(&part[..10]));
    assert_eq!(client.says("EXISTS key"), ":1\r\n");
    assert_eq!(client.says("DEL key"), ":1\r\n");
    let used: usize = client.info("memory", "mem_clients_normal");
    assert!(used < MIB, "{used}");
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}
