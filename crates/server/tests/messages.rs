//! Messages to subscribers of all nodes of a cluster, and of channels that have slots.

mod client;
mod nodes;

use std::thread;
use std::time::Duration;

use client::{Folder, Running};
use nodes::{cluster, id, move_slots, pool, text};

/// Nodes that know of one another; the first one has all slots.
fn two(folders: &[Folder; 2], password: Option<&str>) -> [Running; 2] {
    let servers = pool(1);
    let nodes = folders.each_ref().map(|folder| {
        Running::with(folder, |it| {
            it.cluster = Some(cluster(&servers));
            it.password = password.map(Into::into);
        })
    });
    for node in &nodes {
        let mut client = node.client();
        if let Some(password) = password {
            let auth = client.command(&[b"AUTH", password.as_bytes()]);
            assert_eq!(auth, b"+OK\r\n");
        }
        while text(&client.says("CLUSTER NODES")).lines().count() < 2 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    nodes
}

#[test]
fn subscribers_of_all_nodes_get_messages_in_order() {
    for password in [None, Some("a secret")] {
        let folders = [Folder::new(), Folder::new()];
        let nodes = two(&folders, password);
        let client = |at: usize| {
            let mut client = nodes[at].client();
            if let Some(password) = password {
                let auth = client.command(&[b"AUTH", password.as_bytes()]);
                assert_eq!(auth, b"+OK\r\n");
            }
            client
        };
        let (mut here, mut there) = (client(0), client(1));
        here.ask("SUBSCRIBE news");
        there.ask("SUBSCRIBE news");
        there.ask("PSUBSCRIBE n*");
        let mut publisher = client(0);
        for number in 0..200 {
            // Those of this node are counted, as in Redis.
            assert_eq!(publisher.says(&format!("PUBLISH news {number}")), ":1\r\n");
        }
        for number in 0..200 {
            let length = number.to_string().len();
            let message = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${length}\r\n{number}\r\n");
            assert_eq!(here.reply(), message.as_bytes());
            assert_eq!(there.reply(), message.as_bytes());
            let pattern = String::from_utf8(there.reply()).unwrap();
            assert!(pattern.contains("pmessage") && pattern.ends_with(&format!("{number}\r\n")));
        }
        let [one, _other] = nodes;
        // A node that is gone holds nothing up.
        one.stop();
        let mut publisher = _other.client();
        if let Some(password) = password {
            publisher.command(&[b"AUTH", password.as_bytes()]);
        }
        assert_eq!(publisher.says("PUBLISH news last"), ":2\r\n");
    }
}

#[test]
fn channels_with_slots_are_at_their_node() {
    let folders = [Folder::new(), Folder::new()];
    let nodes = two(&folders, None);
    let mut subscriber = nodes[0].client();
    let confirmed = |kind: &str, channel: &str, count: u32| {
        let (long, length) = (kind.len(), channel.len());
        format!("*3\r\n${long}\r\n{kind}\r\n${length}\r\n{channel}\r\n:{count}\r\n")
    };
    let said = subscriber.says("SSUBSCRIBE foo");
    assert_eq!(said, confirmed("ssubscribe", "foo", 1));
    assert_eq!(
        subscriber.says("SSUBSCRIBE bar"),
        confirmed("ssubscribe", "bar", 2)
    );
    let said = subscriber.says("SSUBSCRIBE foo bar");
    assert!(said.starts_with("-CROSSSLOT"), "{said}");
    assert!(
        subscriber
            .says("GET foo")
            .starts_with("-ERR Can't execute 'get'")
    );
    let mut publisher = nodes[0].client();
    assert_eq!(publisher.says("SPUBLISH foo hello"), ":1\r\n");
    let message = b"*3\r\n$8\r\nsmessage\r\n$3\r\nfoo\r\n$5\r\nhello\r\n";
    assert_eq!(subscriber.reply(), message);
    assert_eq!(publisher.says("PUBLISH foo other"), ":0\r\n");
    assert_eq!(
        publisher.says("PUBSUB SHARDCHANNELS f*"),
        "*1\r\n$3\r\nfoo\r\n"
    );
    let numbers = "*2\r\n$3\r\nfoo\r\n:1\r\n";
    assert_eq!(publisher.says("PUBSUB SHARDNUMSUB foo"), numbers);
    assert_eq!(
        publisher.says("PUBSUB NUMSUB foo"),
        "*2\r\n$3\r\nfoo\r\n:0\r\n"
    );
    let mut other = nodes[1].client();
    let moved = format!("-MOVED 12182 {}\r\n", nodes[0].address);
    assert_eq!(other.says("SPUBLISH foo x"), moved);
    assert_eq!(other.says("SSUBSCRIBE foo"), moved);
    // The slot moves: who subscribed is told, and finds the channel at the other node.
    move_slots(&nodes[0], 12182..=12182, &id(&nodes[1]));
    let told = String::from_utf8(subscriber.reply()).unwrap();
    assert_eq!(told, confirmed("sunsubscribe", "foo", 1));
    assert_eq!(other.says("SPUBLISH foo x"), ":0\r\n");
    assert!(
        subscriber
            .says("SSUBSCRIBE foo")
            .starts_with("-MOVED 12182")
    );
    let mut there = nodes[1].client();
    assert_eq!(
        there.says("SSUBSCRIBE foo"),
        confirmed("ssubscribe", "foo", 1)
    );
    assert_eq!(other.says("SPUBLISH foo x"), ":1\r\n");
    assert_eq!(
        subscriber.says("SUNSUBSCRIBE"),
        confirmed("sunsubscribe", "bar", 0)
    );
    assert_eq!(subscriber.says("GET bar"), "$-1\r\n");
    drop(there);
    while other.says("PUBSUB SHARDNUMSUB foo") == numbers {
        thread::sleep(Duration::from_millis(5));
    }
}

/// CLIENT LIST tells what each client does.
#[test]
fn clients_are_listed_with_what_they_do() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut waiting = server.client();
    waiting.says("CLIENT SETNAME waiting");
    waiting.send(b"BLPOP none 0\r\n");
    let mut queueing = server.client();
    queueing.says("CLIENT SETNAME queueing");
    queueing.says("MULTI");
    queueing.says("GET key");
    let line = |listed: &str, name: &str| {
        let name = format!(" name={name} ");
        let found = listed.lines().find(|it| it.contains(&name));
        found.map_or(String::new(), String::from)
    };
    let listed = loop {
        let listed = client.says("CLIENT LIST");
        if line(&listed, "waiting").contains(" flags=b ") {
            break listed;
        }
    };
    assert!(line(&listed, "waiting").contains(" cmd=blpop "), "{listed}");
    let queueing_line = line(&listed, "queueing");
    assert!(queueing_line.contains(" flags=x ") && queueing_line.contains(" cmd=get "));
    assert!(
        line(&listed, "").contains(" flags=N ") && line(&listed, "").contains(" cmd=client|list ")
    );
    queueing.says("DISCARD");
    client.says("RPUSH none x");
    waiting.reply();
    queueing.says("CLIENT GETNAME");
    let listed = loop {
        let listed = client.says("CLIENT LIST");
        if !listed.contains(" flags=b ") {
            break listed;
        }
    };
    let queueing_line = line(&listed, "queueing");
    assert!(queueing_line.contains(" flags=N ") && queueing_line.contains(" cmd=client|getname "));
}

/// CLIENT LIST and CLIENT KILL tell subscribers from others.
#[test]
fn subscribers_are_a_type_of_clients() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let mut count = |kind: &str| {
        let listed = client.says(&format!("CLIENT LIST TYPE {kind}"));
        listed.lines().filter(|it| it.starts_with("id=")).count()
    };
    let mut subscribers = Vec::new();
    for (begin, end) in [
        ("SUBSCRIBE a", "UNSUBSCRIBE"),
        ("PSUBSCRIBE a*", "PUNSUBSCRIBE a*"),
        ("SSUBSCRIBE a", "SUNSUBSCRIBE a"),
        ("SUBSCRIBE a", "RESET"),
    ] {
        // They stay, as others.
        subscribers.push(server.client());
        let subscriber = subscribers.last_mut().unwrap();
        subscriber.ask("PING");
        let others = count("normal");
        assert_eq!(count("pubsub"), 0, "{begin}");
        subscriber.ask(begin);
        assert_eq!((count("normal"), count("PubSub")), (others - 1, 1));
        subscriber.ask(end);
        assert_eq!(count("pubsub"), 0, "{end}");
    }
    let mut subscriber = server.client();
    subscriber.ask("SUBSCRIBE a");
    assert!(client.says("CLIENT LIST").contains(" flags=P "));
    assert_eq!(client.says("CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert!(subscriber.rest().is_empty());
}

#[test]
fn a_subscriber_may_leave_as_much_unread_as_it_is_said() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut subscriber, mut publisher) = (server.client(), server.client());
    subscriber.ask("SUBSCRIBE news");
    let set = |value: &str| format!("CONFIG SET client-output-buffer-limit {value}");
    let said = publisher.says(&set("\"normal 1mb 0 0\""));
    assert!(said.contains("only the class pubsub"), "{said}");
    assert_eq!(publisher.says(&set("\"pubsub 1mb 0 0\"")), "+OK\r\n");
    // More than the kernel keeps for a socket.
    let message = vec![b'm'; 100_000];
    let mut sent = 0;
    while publisher.command(&[b"PUBLISH", b"news", &message]) == b":1\r\n" {
        sent += 1;
        assert!(sent < 1000, "nobody disconnects it");
    }
    assert!(sent > 10, "{sent}");
    assert_eq!(publisher.info::<u64>("stats", "evicted_clients"), 1);
}
