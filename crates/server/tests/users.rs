//! Users: their rights while they are connected, their file, and what was refused.

mod client;

use client::{Folder, Running};
use timberline_server::{Error, Options, Server};

#[test]
fn rights_change_while_a_user_is_connected() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut admin, mut bob) = (server.client(), server.client());
    admin.ask("ACL SETUSER bob on >secret ~b* &news +@all");
    assert_eq!(
        bob.says("HELLO 3 AUTH bob wrong").split(' ').next(),
        Some("-WRONGPASS")
    );
    assert!(bob.says("HELLO 3 AUTH bob secret").starts_with("%7"));
    assert_eq!(bob.says("SET b 1"), "+OK\r\n");
    assert!(admin.says("CLIENT LIST").contains("user=bob"));
    // Queued before, refused when it is executed.
    bob.ask("MULTI");
    bob.ask("SET b 2");
    bob.ask("GET b");
    admin.ask("ACL SETUSER bob -set");
    let executed = bob.says("EXEC");
    assert!(
        executed.starts_with("*2\r\n-NOPERM ACLs rules changed"),
        "{executed}"
    );
    assert!(executed.ends_with("$1\r\n1\r\n"), "{executed}");
    // A subscriber that may not receive any more is disconnected, others are not.
    let mut reader = server.client();
    reader.ask("AUTH bob secret");
    reader.ask("SUBSCRIBE news");
    bob.ask("SUBSCRIBE news");
    let mut other = server.client();
    other.ask("SUBSCRIBE news");
    admin.ask("ACL SETUSER bob resetchannels");
    assert_eq!((reader.rest(), bob.rest()), (Vec::new(), Vec::new()));
    assert_eq!(admin.says("PUBLISH news x"), ":1\r\n");
    // Who is removed is disconnected, and was refused even before.
    let mut bob = server.client();
    bob.ask("AUTH bob secret");
    assert_eq!(admin.says("ACL DELUSER bob nobody"), ":1\r\n");
    assert_eq!(bob.rest(), b"");
    let mut bob = server.client();
    assert!(bob.says("AUTH bob secret").starts_with("-WRONGPASS"));
    // One that removes itself gets its reply.
    admin.ask("ACL SETUSER eve on nopass +@all");
    bob.ask("AUTH eve anything");
    assert_eq!(bob.says("ACL DELUSER eve"), ":1\r\n");
    assert_eq!(bob.rest(), b"");
}

#[test]
fn the_default_user_is_the_one_with_the_password() {
    let folder = Folder::new();
    let server = Running::with(&folder, |it| it.password = Some("first".into()));
    let mut client = server.client();
    assert!(client.says("PING").starts_with("-NOAUTH"));
    assert_eq!(client.says("AUTH default first"), "+OK\r\n");
    assert_eq!(client.says("CONFIG SET requirepass second"), "+OK\r\n");
    let mut other = server.client();
    assert!(other.says("AUTH first").starts_with("-WRONGPASS"));
    assert_eq!(other.says("AUTH second"), "+OK\r\n");
    // Off, nobody begins as the default user.
    client.ask("ACL SETUSER bob on nopass +ping");
    client.ask("ACL SETUSER default nopass");
    assert_eq!(server.client().says("PING"), "+PONG\r\n");
    client.ask("ACL SETUSER default off");
    let mut bob = server.client();
    assert!(bob.says("PING").starts_with("-NOAUTH"));
    bob.ask("AUTH bob x");
    assert_eq!(bob.says("PING"), "+PONG\r\n");
    assert!(bob.says("GET a").starts_with("-NOPERM"));
}

#[test]
fn users_are_saved_and_loaded() {
    let folder = Folder::new();
    let file = folder.0.join("users.acl");
    std::fs::write(&file, "# ours\n\nuser bob on >secret ~b* +@read\n").unwrap();
    let with_file = |it: &mut Options| it.acl_file = Some(file.clone());
    let server = Running::with(&folder, with_file);
    let mut admin = server.client();
    let mut bob = server.client();
    assert_eq!(bob.says("AUTH bob secret"), "+OK\r\n");
    assert_eq!(bob.says("GET b"), "$-1\r\n");
    admin.ask("ACL SETUSER eve on >x (+get");
    assert!(
        admin
            .says("ACL SETUSER eve on >x ~e +set")
            .starts_with("+OK")
    );
    assert_eq!(admin.says("ACL SAVE"), "+OK\r\n");
    let listed = admin.says("ACL LIST");
    server.stop();
    let server = Running::with(&folder, with_file);
    let mut admin = server.client();
    assert_eq!(admin.says("ACL LIST"), listed);
    // A file with a mistake changes nothing; one without a user disconnects it.
    let (mut bob, mut eve) = (server.client(), server.client());
    bob.ask("AUTH bob secret");
    eve.ask("AUTH eve x");
    std::fs::write(&file, "user bob on >secret ~* +@all\nuser eve nosuch\n").unwrap();
    let failed = admin.says("ACL LOAD");
    assert!(
        failed.contains("line 2: rule 'nosuch': Syntax error"),
        "{failed}"
    );
    assert_eq!(admin.says("ACL LIST"), listed);
    std::fs::write(&file, "user bob on >secret ~* +@all\n").unwrap();
    assert_eq!(admin.says("ACL LOAD"), "+OK\r\n");
    assert_eq!(bob.says("SET anything 1"), "+OK\r\n");
    assert_eq!(eve.rest(), b"");
    assert_eq!(admin.says("ACL WHOAMI"), "$7\r\ndefault\r\n");
    server.stop();
    // A server does not start with a file that it does not understand.
    std::fs::write(&file, "bob on\n").unwrap();
    let mut options = Options::new(folder.0.join("other"));
    options.listen = vec!["127.0.0.1:0".parse().unwrap()];
    with_file(&mut options);
    match Server::open(options) {
        Err(Error::Users(path, why)) => {
            assert_eq!(
                (path, &why[..]),
                (file, "line 1: a line is `user NAME RULES`")
            );
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn what_was_refused_is_logged() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let (mut admin, mut bob) = (server.client(), server.client());
    admin.ask("ACL SETUSER bob on >secret ~b &news +@all -config");
    bob.ask("AUTH bob wrong");
    bob.ask("AUTH bob secret");
    bob.ask("GET x");
    bob.ask("GET x");
    bob.ask("CONFIG GET port");
    bob.ask("PUBLISH other x");
    bob.ask("MULTI");
    bob.ask("GET y");
    let log = admin.says("ACL LOG");
    let words: Vec<&str> = log
        .lines()
        .filter(|it| !it.starts_with(['$', '*']))
        .collect();
    let entries: Vec<(&str, &str, &str, &str)> = words
        .chunks(14)
        .map(|it| (it[1], it[3], it[5], it[7]))
        .collect();
    assert_eq!(
        entries,
        [
            (":1", "key", "multi", "y"),
            (":1", "channel", "toplevel", "other"),
            (":1", "command", "toplevel", "config|get"),
            (":2", "key", "toplevel", "x"),
            (":1", "auth", "toplevel", "AUTH"),
        ]
    );
    assert_eq!(admin.says("ACL LOG 1").lines().next(), Some("*1"));
    admin.ask("ACL LOG RESET");
    assert_eq!(admin.says("ACL LOG"), "*0\r\n");
    let (one, two) = (admin.says("ACL GENPASS"), admin.says("ACL GENPASS"));
    assert!(one.len() == "$64\r\n".len() + 64 + 2 && one != two);
    assert!(admin.says("ACL GENPASS 5").starts_with("$2\r\n"));
}

#[test]
fn names_that_anybody_may_send_are_kept_in_part() {
    let folder = Folder::new();
    let server = Running::new(&folder);
    let mut client = server.client();
    let name = "x".repeat(100_000);
    let said = client.command(&[b"AUTH", name.as_bytes(), b"y"]);
    assert!(said.starts_with(b"-WRONGPASS"));
    let log = client.says("ACL LOG");
    assert!(
        log.contains(&format!("$128\r\n{}\r\n", &name[..128])),
        "{log}"
    );
}
