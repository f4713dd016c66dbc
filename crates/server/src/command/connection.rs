//! Commands about the connection itself.

use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Done, Failure, acl};
use crate::acl::Reason;
use crate::client::Unblock;
use crate::resp::Protocol;
use crate::session::Replies;

pub(super) fn ping(call: &mut Call) -> Done {
    if call.args.len() > 2 {
        return Err(Failure::fixed(
            "ERR wrong number of arguments for 'ping' command",
        ));
    }
    if call.session.is_subscribed() && call.out.protocol == Protocol::Two {
        call.out.array(2);
        call.out.bulk(b"pong");
        call.out.bulk(call.arg(1));
        return Ok(());
    }
    match call.args.get(1) {
        Some(message) => call.out.bulk(message),
        None => call.out.simple("PONG"),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call) -> Done {
    call.out.bulk(call.arg(1));
    Ok(())
}

pub(super) fn quit(call: &mut Call) -> Done {
    call.session.quits = true;
    call.out.ok();
    Ok(())
}

pub(super) fn select(call: &mut Call) -> Done {
    let index = crate::resp::integer(call.arg(1));
    match index {
        None => Err(Failure::NOT_INTEGER),
        // There is one.
        Some(0) => {
            call.out.ok();
            Ok(())
        }
        Some(_) => Err(Failure::fixed("ERR DB index is out of range")),
    }
}

pub(super) fn auth(call: &mut Call) -> Done {
    let (user, password) = match call.args.len() {
        2 => (&b"default"[..], call.arg(1)),
        3 => (call.arg(1), call.arg(2)),
        _ => return Err(Failure::SYNTAX),
    };
    if call.args.len() == 2 && call.shared.users.is_open() {
        return Err(Failure::fixed(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    authenticate(call, user, password)?;
    call.out.ok();
    Ok(())
}

fn authenticate(call: &mut Call, user: &[u8], password: &[u8]) -> Done {
    let Some(account) = call.shared.users.authenticate(user, password) else {
        let command = call.command.name.to_uppercase().into_bytes();
        acl::log(call.shared, call.session, Reason::Auth, command, user);
        return Err(Failure::fixed(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ));
    };
    call.session.be(account);
    call.session.authenticated = true;
    Ok(())
}

pub(super) fn hello(call: &mut Call) -> Done {
    let mut protocol = call.out.protocol;
    let mut at = 1;
    if call.args.len() > 1 {
        protocol = match crate::resp::integer(call.arg(1)) {
            Some(2) => Protocol::Two,
            Some(3) => Protocol::Three,
            Some(_) => return Err(Failure::fixed("NOPROTO unsupported protocol version")),
            None => {
                return Err(Failure::fixed(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        };
        at = 2;
    }
    let mut name = None;
    while at < call.args.len() {
        let more = call.args.len() - 1 - at;
        if call.is(at, "auth") && more >= 2 {
            authenticate(call, call.arg(at + 1), call.arg(at + 2))?;
            at += 3;
        } else if call.is(at, "setname") && more >= 1 {
            name = Some(checked_name(call.arg(at + 1))?);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(call.arg(at)).into_owned();
            return Err(Failure::said(format!(
                "ERR Syntax error in HELLO option '{option}'"
            )));
        }
    }
    if !call.session.authenticated {
        return Err(Failure::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        call.session.set_name(name);
    }
    call.out.protocol = protocol;
    call.session.client.set_protocol(protocol);
    let out = &mut *call.out;
    out.map(7);
    out.bulk(b"server");
    out.bulk(b"redis");
    out.bulk(b"version");
    out.bulk(crate::REDIS_VERSION.as_bytes());
    out.bulk(b"proto");
    out.integer(if protocol == Protocol::Two { 2 } else { 3 });
    out.bulk(b"id");
    out.integer(call.session.client.id as i64);
    out.bulk(b"mode");
    out.bulk(match call.shared.keyspace.node() {
        Some(_) => b"cluster",
        None => b"standalone",
    });
    out.bulk(b"role");
    out.bulk(b"master");
    out.bulk(b"modules");
    out.array(0);
    Ok(())
}

pub(super) fn reset(call: &mut Call) -> Done {
    super::unwatch(call);
    super::pubsub::leave(call.shared, call.session);
    call.session.transaction = None;
    call.session.be(call.shared.users.default_account());
    call.session.authenticated = call.shared.users.is_open();
    call.session.replies = Replies::On;
    call.out.protocol = Protocol::Two;
    call.session.client.set_protocol(Protocol::Two);
    call.session.set_name(Vec::new());
    call.out.simple("RESET");
    Ok(())
}

fn checked_name(name: &[u8]) -> Result<Vec<u8>, Failure> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(name.into()),
        false => Err(Failure::fixed(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

pub(super) fn client(call: &mut Call) -> Done {
    let sub = call.arg(1).to_ascii_lowercase();
    let arity = |call: &Call, len: std::ops::RangeInclusive<usize>, sub| match len
        .contains(&call.args.len())
    {
        true => Ok(()),
        false => Err(call.wrong_arity(sub)),
    };
    match &sub[..] {
        b"id" => {
            arity(call, 2..=2, "id")?;
            call.out.integer(call.session.client.id as i64);
        }
        b"getname" => {
            arity(call, 2..=2, "getname")?;
            let name = call.session.client.name();
            call.out
                .bulk_or_null((!name.is_empty()).then_some(&name[..]));
        }
        b"setname" => {
            arity(call, 3..=3, "setname")?;
            call.session.set_name(checked_name(call.arg(2))?);
            call.out.ok();
        }
        b"info" => {
            arity(call, 2..=2, "info")?;
            call.session.note(call.now, call.command, Some("info"));
            let line = call.session.client.describe(call.now) + "\n";
            call.out.verbatim(line.as_bytes());
        }
        b"list" => {
            call.session.note(call.now, call.command, Some("list"));
            let mut clients = call.shared.clients();
            if call.args.len() > 3 && call.is(2, "id") {
                let ids = ids(call, 3)?;
                clients.retain(|it| ids.contains(&it.id));
            } else if call.args.len() == 4 && call.is(2, "type") {
                let name = known_type(call, 3)?;
                clients.retain(|it| it.is_type(name) == Some(true));
            } else if call.args.len() != 2 {
                return Err(Failure::SYNTAX);
            }
            let listed = clients.iter().map(|it| it.describe(call.now) + "\n");
            let text: String = listed.collect();
            call.out.verbatim(text.as_bytes());
        }
        b"kill" => return kill(call),
        b"unblock" => {
            arity(call, 3..=4, "unblock")?;
            let how = match call.args.len() {
                3 => Unblock::Timeout,
                _ if call.is(3, "timeout") => Unblock::Timeout,
                _ if call.is(3, "error") => Unblock::Error,
                _ => {
                    return Err(Failure::fixed(
                        "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
                    ));
                }
            };
            let id = crate::resp::integer(call.arg(2)).ok_or(Failure::NOT_INTEGER)?;
            let clients = call.shared.clients();
            let chosen = clients.iter().find(|it| i64::try_from(it.id) == Ok(id));
            let unblocked = chosen.is_some_and(|it| it.unblock(how));
            call.out.integer(i64::from(unblocked));
        }
        b"reply" => {
            arity(call, 3..=3, "reply")?;
            if call.is(2, "on") {
                call.session.replies = Replies::On;
                call.out.ok();
            } else if call.is(2, "off") {
                call.session.replies = Replies::Off;
            } else if call.is(2, "skip") {
                if call.session.replies == Replies::On {
                    call.session.replies = Replies::SkipThis;
                }
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        b"setinfo" => {
            arity(call, 4..=4, "setinfo")?;
            call.out.ok();
        }
        b"no-evict" => {
            arity(call, 3..=3, "no-evict")?;
            if !call.is(2, "on") && !call.is(2, "off") {
                return Err(Failure::SYNTAX);
            }
            call.out.ok();
        }
        b"pause" => return pause(call),
        b"unpause" => {
            arity(call, 2..=2, "unpause")?;
            call.shared.pause.end();
            call.out.ok();
        }
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

/// An argument that is a type of clients.
fn known_type<'a>(call: &Call<'a>, at: usize) -> Result<&'a [u8], Failure> {
    let name = call.arg(at);
    match call.session.client.is_type(name) {
        Some(_) => Ok(name),
        None => {
            let name = String::from_utf8_lossy(name);
            Err(Failure::said(format!("ERR Unknown client type '{name}'")))
        }
    }
}

fn pause(call: &mut Call) -> Done {
    let of_all = match call.args.len() {
        3 => true,
        4 if call.is(3, "all") => true,
        4 if call.is(3, "write") => false,
        4 => {
            let unknown = "ERR CLIENT PAUSE mode must be WRITE or ALL";
            return Err(Failure::fixed(unknown));
        }
        ..3 => return Err(call.wrong_arity("pause")),
        5.. => return Err(call.wrong_arguments()),
    };
    let no_number = Failure::fixed("ERR timeout is not an integer or out of range");
    let millis = crate::resp::integer(call.arg(2)).ok_or(no_number)?;
    if millis < 0 {
        return Err(Failure::fixed("ERR timeout is negative"));
    }
    let until = call.now.saturating_add(millis);
    call.shared.pause.begin(until, of_all);
    call.out.ok();
    Ok(())
}

fn ids(call: &Call, from: usize) -> Result<Vec<u64>, Failure> {
    let ids = call.args.from(from);
    ids.iter()
        .map(|it| crate::resp::integer(it).and_then(|it| u64::try_from(it).ok()))
        .map(|it| it.ok_or(Failure::fixed("ERR Invalid client ID")))
        .collect()
}

fn kill(call: &mut Call) -> Done {
    let clients = call.shared.clients();
    if call.args.len() == 3 {
        // The old form: an address.
        let address = String::from_utf8_lossy(call.arg(2)).into_owned();
        let found = clients.iter().find(|it| it.address() == address);
        let found = found.ok_or(Failure::fixed("ERR No such client"))?;
        found.kill();
        call.out.ok();
        return Ok(());
    }
    if call.args.len() < 3 {
        return Err(call.wrong_arity("kill"));
    }
    if !call.args.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let (mut id, mut address, mut skip_me, mut user) = (None, None, true, None);
    let mut kind = None;
    for at in (2..call.args.len()).step_by(2) {
        let value = call.arg(at + 1);
        if call.is(at, "id") {
            let given = crate::resp::integer(value).filter(|&it| it > 0);
            id =
                Some(given.ok_or(Failure::fixed("ERR client-id should be greater than 0"))? as u64);
        } else if call.is(at, "type") {
            kind = Some(known_type(call, at + 1)?);
        } else if call.is(at, "addr") {
            address = Some(String::from_utf8_lossy(value).into_owned());
        } else if call.is(at, "user") {
            let found = call.shared.users.get(value).ok_or_else(|| {
                let name = String::from_utf8_lossy(value);
                Failure::said(format!("ERR No such user '{name}'"))
            });
            user = Some(found?);
        } else if call.is(at, "skipme") {
            skip_me = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err(Failure::SYNTAX),
            };
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let mut killed = 0;
    for client in &clients {
        let is_me = client.id == call.session.client.id;
        let chosen = id.is_none_or(|it| it == client.id)
            && kind.is_none_or(|it| client.is_type(it) == Some(true))
            && address.as_ref().is_none_or(|it| *it == client.address())
            && user.as_ref().is_none_or(|it| client.is_of(it));
        if chosen && !(is_me && skip_me) {
            client.kill();
            killed += 1;
        }
    }
    call.shared.stats.killed.fetch_add(killed, Relaxed);
    call.out.integer(killed as i64);
    Ok(())
}
