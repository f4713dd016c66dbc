//! `ACL`: users and their rights.

use std::sync::Arc;

use tracing::warn;

use super::categories::{Categories, NAMES, SUBCOMMANDS, of};
use super::{Call, Command, Done, Failure, TABLE, decimal, find};
use crate::acl::{Account, DEFAULT, Denied, Entry, Reason};
use crate::resp::Args;
use crate::seldom::Seldom;
use crate::session::Session;
use crate::shared::{Shared, millis_since_1970};

const NO_FILE: Failure = Failure::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.",
);
const BITS: Failure = Failure::fixed(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
     number up to 4096",
);

/// Why a session's user may not run a command, if it may not; that is logged.
pub(super) fn denied(
    shared: &Shared,
    session: &Session,
    command: &'static Command,
    args: Args<'_>,
) -> Option<Denied> {
    let user = session.user.user();
    let denied = user.check(command, args).err()?;
    let object = match &denied {
        Denied::Command(name) => name.clone().into_bytes(),
        Denied::Key(name) | Denied::Channel(name) => name.clone(),
    };
    let reason = Reason::Denied(denied.clone());
    log(shared, session, reason, object, &session.user.name);
    Some(denied)
}

/// The error of a command that a user may not run.
pub(super) fn refusal(denied: &Denied) -> String {
    match denied {
        Denied::Command(name) => {
            format!("NOPERM this user has no permissions to run the '{name}' command")
        }
        Denied::Key(_) => "NOPERM this user has no permissions to access one of the keys used as \
                           arguments"
            .into(),
        Denied::Channel(_) => "NOPERM this user has no permissions to access one of the channels \
                               used as arguments"
            .into(),
    }
}

/// The error of a queued command that a user may not run any more.
pub(super) fn refusal_in_exec(denied: &Denied) -> String {
    let reason = match denied {
        Denied::Command(_) => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => {
            "no permission to access one of the channels used as arguments to the command"
        }
    };
    format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
         call. This command is no longer allowed for the following reason: {reason}"
    )
}

/// Bytes of a user's name that are logged.
const MOST_OF_NAME: usize = 128;

/// Logs that a client was refused as a user.
pub(super) fn log(
    shared: &Shared,
    session: &Session,
    reason: Reason,
    object: Vec<u8>,
    user: &[u8],
) {
    static EVENTS: Seldom = Seldom::new();
    // A name may be anything that a client sends.
    let user = &user[..user.len().min(MOST_OF_NAME)];
    if let Some(held_back) = EVENTS.pass() {
        let (client, user) = (session.client.address(), String::from_utf8_lossy(user));
        warn!(
            client,
            user = &*user,
            reason = reason.word(),
            held_back,
            "a user is refused"
        );
    }
    let now = millis_since_1970();
    shared.users.log.add(Entry {
        reason,
        in_multi: session.transaction.is_some(),
        object,
        user: user.into(),
        client: session.client.describe(now),
        count: 1,
        at: now,
    });
}

pub(super) fn acl(call: &mut Call) -> Done {
    let sub = call.arg(1).to_ascii_lowercase();
    let users = &call.shared.users;
    match (&sub[..], call.args.len()) {
        (b"whoami", 2) => call.out.bulk(&call.session.user.name),
        (b"users", 2) => {
            let all = users.all();
            call.out.array(all.len());
            all.iter().for_each(|it| call.out.bulk(&it.name));
        }
        (b"list", 2) => {
            let lines = users.lines();
            call.out.array(lines.len());
            lines.iter().for_each(|it| call.out.bulk(it));
        }
        (b"getuser", 3) => get_user(call),
        (b"setuser", 3..) => return set_user(call),
        (b"deluser", 3..) => return delete_users(call),
        (b"cat", 2 | 3) => return categories(call),
        (b"genpass", 2 | 3) => return password(call),
        (b"save", 2) => return save(call),
        (b"load", 2) => return load(call),
        (b"log", 2 | 3) => return show_log(call),
        (b"dryrun", 4..) => return dry_run(call),
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

fn get_user(call: &mut Call) {
    let Some(account) = call.shared.users.get(call.arg(2)) else {
        call.out.null();
        return;
    };
    let (user, out) = (account.user(), &mut *call.out);
    out.map(6);
    out.bulk(b"flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.iter().for_each(|it| out.bulk(it.as_bytes()));
    out.bulk(b"passwords");
    let hashes = user.hashes();
    out.array(hashes.len());
    hashes.iter().for_each(|it| out.bulk(it.as_bytes()));
    out.bulk(b"commands");
    out.bulk(user.command_rules().as_bytes());
    out.bulk(b"keys");
    out.bulk(&user.key_rules());
    out.bulk(b"channels");
    out.bulk(&user.channel_rules());
    out.bulk(b"selectors");
    out.array(0);
}

fn set_user(call: &mut Call) -> Done {
    let name = call.arg(2);
    if name.iter().any(|it| it.is_ascii_whitespace() || *it == 0) {
        return Err(Failure::fixed(
            "ERR Usernames can't contain spaces or null characters",
        ));
    }
    let rules = call.args.from(3);
    let set = call.shared.users.set(name, rules.iter());
    let account = set.map_err(|why| Failure::said(format!("ERR {why}")))?;
    end_subscribers(call.shared, &account);
    call.out.ok();
    Ok(())
}

/// Ends connections of a user that subscribe to what it may not receive any more.
fn end_subscribers(shared: &Shared, account: &Arc<Account>) {
    let user = account.user();
    let pubsub = shared.pubsub.lock();
    let mut ended = Vec::new();
    for channel in pubsub.channels() {
        if !user.may_receive(channel, false) {
            ended.extend(pubsub.subscribers(channel).cloned());
        }
    }
    for channel in pubsub.shards() {
        if !user.may_receive(channel, false) {
            ended.extend(pubsub.shard_subscribers(channel).cloned());
        }
    }
    for (pattern, clients) in pubsub.patterns() {
        if !user.may_receive(pattern, true) {
            ended.extend(clients.cloned());
        }
    }
    drop(pubsub);
    ended.retain(|it| it.is_of(account));
    ended.iter().for_each(|it| it.kill());
}

fn delete_users(call: &mut Call) -> Done {
    let names = call.args.from(2);
    if names.iter().any(|it| it == DEFAULT) {
        return Err(Failure::fixed("ERR The 'default' user cannot be removed"));
    }
    let removed = names.iter().filter_map(|it| call.shared.users.remove(it));
    let removed: Vec<_> = removed.collect();
    end_connections(call, &removed);
    call.out.count(removed.len());
    Ok(())
}

/// Ends all connections of users.
fn end_connections(call: &mut Call, accounts: &[Arc<Account>]) {
    for client in call.shared.clients() {
        if accounts.iter().any(|it| client.is_of(it)) {
            client.kill();
        }
    }
    // The reply to this command is the last one.
    if accounts
        .iter()
        .any(|it| Arc::ptr_eq(it, &call.session.user))
    {
        call.session.quits = true;
    }
}

fn categories(call: &mut Call) -> Done {
    let Some(name) = call.args.get(2) else {
        call.out.array(NAMES.len());
        NAMES.iter().for_each(|it| call.out.bulk(it.as_bytes()));
        return Ok(());
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let category = Categories::named(&name.to_lowercase())
        .ok_or_else(|| Failure::said(format!("ERR Unknown category '{name}'")))?;
    let commands = TABLE.iter().filter(|it| of(it).meets(category));
    let subs = SUBCOMMANDS
        .iter()
        .filter(|it| it.categories.meets(category));
    let names = commands.map(|it| it.name.to_string());
    let names = names.chain(subs.map(|it| format!("{}|{}", it.command, it.name)));
    let names: Vec<String> = names.collect();
    call.out.array(names.len());
    names.iter().for_each(|it| call.out.bulk(it.as_bytes()));
    Ok(())
}

/// Random hexadecimal digits: of 256 bits, or of as many as are asked for.
fn password(call: &mut Call) -> Done {
    let bits = if call.args.len() == 3 {
        call.integer(2)?
    } else {
        256
    };
    if !(1..=4096).contains(&bits) {
        return Err(BITS);
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)
            .map_err(|error| Failure::said(format!("ERR no random numbers: {error}")))?;
    }
    let text: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    call.out.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn save(call: &mut Call) -> Done {
    let users = &call.shared.users;
    let path = users.file().ok_or(NO_FILE)?;
    users
        .save(path)
        .map_err(|error| Failure::said(format!("ERR {}: {error}", path.display())))?;
    call.out.ok();
    Ok(())
}

fn load(call: &mut Call) -> Done {
    let users = &call.shared.users;
    let path = users.file().ok_or(NO_FILE)?;
    let failed = |why: &dyn std::fmt::Display| {
        Failure::said(format!(
            "ERR {}: {why}. No user was changed",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let gone = users.load(&text).map_err(|why| failed(&why))?;
    for account in users.all() {
        end_subscribers(call.shared, &account);
    }
    end_connections(call, &gone);
    call.out.ok();
    Ok(())
}

fn show_log(call: &mut Call) -> Done {
    let log = &call.shared.users.log;
    let most = match call.args.len() {
        3 if call.is(2, "reset") => {
            log.reset();
            call.out.ok();
            return Ok(());
        }
        3 => usize::try_from(call.integer(2)?).unwrap_or(0),
        _ => 10,
    };
    let entries = log.entries(most);
    let out = &mut *call.out;
    out.array(entries.len());
    for entry in entries {
        out.map(7);
        out.bulk(b"count");
        out.integer(entry.count as i64);
        out.bulk(b"reason");
        out.bulk(entry.reason.word().as_bytes());
        out.bulk(b"context");
        out.bulk(if entry.in_multi {
            b"multi"
        } else {
            b"toplevel"
        });
        out.bulk(b"object");
        out.bulk(&entry.object);
        out.bulk(b"username");
        out.bulk(&entry.user);
        out.bulk(b"age-seconds");
        out.double(&decimal((call.now - entry.at).max(0) as f64 / 1000.0));
        out.bulk(b"client-info");
        out.bulk(entry.client.as_bytes());
    }
    Ok(())
}

/// Whether a user may run a command, which is not run.
fn dry_run(call: &mut Call) -> Done {
    let shown = |at| String::from_utf8_lossy(call.arg(at)).into_owned();
    let account = call.shared.users.get(call.arg(2));
    let account =
        account.ok_or_else(|| Failure::said(format!("ERR User '{}' not found", shown(2))))?;
    let args = call.args.from(3);
    let command = find(call.arg(3))
        .ok_or_else(|| Failure::said(format!("ERR Command '{}' not found", shown(3))))?;
    if !command.takes(args.len()) {
        return Err(Failure::said(format!(
            "ERR wrong number of arguments for '{}' command",
            command.name
        )));
    }
    let (what, name) = match account.user().check(command, args) {
        Ok(()) => {
            call.out.ok();
            return Ok(());
        }
        Err(Denied::Command(name)) => ("run", format!("'{name}' command")),
        Err(Denied::Key(key)) => ("access", format!("'{}' key", String::from_utf8_lossy(&key))),
        Err(Denied::Channel(name)) => (
            "access",
            format!("'{}' channel", String::from_utf8_lossy(&name)),
        ),
    };
    let said = format!("This user has no permissions to {what} the {name}");
    call.out.bulk(said.as_bytes());
    Ok(())
}
