//! Commands about the server.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use super::{Call, Command, Done, Failure, TABLE, categories, find, matches};

pub(super) fn time(call: &mut Call) -> Done {
    let micros = crate::shared::micros_since_1970();
    call.out.array(2);
    call.out.bulk((micros / 1_000_000).to_string().as_bytes());
    call.out.bulk((micros % 1_000_000).to_string().as_bytes());
    Ok(())
}

pub(super) fn shutdown(call: &mut Call) -> Done {
    let (mut save, mut no_save, mut other, mut abort) = (false, false, false, false);
    for option in call.args.iter().skip(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"save" => save = true,
            b"nosave" => no_save = true,
            b"now" | b"force" => other = true,
            b"abort" => abort = true,
            _ => return Err(Failure::SYNTAX),
        }
    }
    if save && no_save || abort && (save || no_save || other) {
        return Err(Failure::SYNTAX);
    }
    if abort {
        // One that was begun takes no more commands.
        return Err(Failure::fixed("ERR No shutdown in progress."));
    }
    call.shared.shutdown();
    call.session.quits = true;
    Ok(())
}

pub(super) fn info(call: &mut Call) -> Done {
    let mut text = String::new();
    let wanted: Vec<String> = call
        .args
        .iter()
        .skip(1)
        .map(|it| String::from_utf8_lossy(it).to_lowercase())
        .collect();
    let all = wanted.is_empty()
        || wanted
            .iter()
            .any(|it| ["all", "everything", "default"].contains(&it.as_str()));
    for (name, write) in crate::info::SECTIONS {
        if all || wanted.iter().any(|it| it == &name.to_lowercase()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            write(call.shared, &mut text);
        }
    }
    call.out.verbatim(text.as_bytes());
    Ok(())
}

pub(super) fn config(call: &mut Call) -> Done {
    let sub = call.arg(1).to_ascii_lowercase();
    match (&sub[..], call.args.len()) {
        (b"get", 3..) => {
            let known = call.shared.config.all();
            let mut found = Vec::new();
            for (name, value) in known {
                let wanted = |it: &[u8]| matches(&it.to_ascii_lowercase(), name.as_bytes());
                if call.args.iter().skip(2).any(wanted) {
                    found.push((name, value));
                }
            }
            call.out.map(found.len());
            for (name, value) in found {
                call.out.bulk(name.as_bytes());
                call.out.bulk(value.as_bytes());
            }
        }
        (b"set", 4..) if call.args.len().is_multiple_of(2) => {
            let text = |at: usize| String::from_utf8_lossy(call.arg(at)).into_owned();
            let names = (2..call.args.len()).step_by(2);
            let settings: Vec<_> = names
                .map(|at| (text(at).to_lowercase(), text(at + 1)))
                .collect();
            let set = call.shared.config.set_all(&settings);
            set.map_err(Failure::said)?;
            if settings.iter().any(|it| it.0 == "maxmemory") {
                call.shared.share_memory()?;
            }
            call.out.ok();
        }
        (b"resetstat", 2) => {
            call.shared.stats.reset();
            let memory = &call.shared.config.memory;
            memory.disconnected.store(0, Relaxed);
            call.out.ok();
        }
        (b"rewrite", 2) => {
            return Err(Failure::fixed(
                "ERR The server is running without a config file",
            ));
        }
        (b"set", 5..) => return Err(Failure::SYNTAX),
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

pub(super) fn command(call: &mut Call) -> Done {
    if call.args.len() == 1 {
        call.out.array(TABLE.len());
        for command in TABLE {
            describe(call, command);
        }
        return Ok(());
    }
    let sub = call.arg(1).to_ascii_lowercase();
    match (&sub[..], call.args.len()) {
        (b"count", 2) => call.out.count(TABLE.len()),
        (b"list", 2..) => return list(call),
        (b"info", _) => {
            let named = call.args.from(2);
            let all = named.is_empty();
            call.out.array(if all { TABLE.len() } else { named.len() });
            if all {
                for command in TABLE {
                    describe(call, command);
                }
            }
            for name in named.iter() {
                match find(name) {
                    Some(command) => describe(call, command),
                    None => call.out.null_array(),
                }
            }
        }
        (b"docs", _) => {
            let named = call.args.from(2);
            let commands: Vec<&Command> = match named.is_empty() {
                true => TABLE.iter().collect(),
                false => named.iter().filter_map(find).collect(),
            };
            call.out.map(commands.len());
            for command in commands {
                call.out.bulk(command.name.as_bytes());
                call.out.map(2);
                call.out.bulk(b"summary");
                call.out.bulk(command.summary.as_bytes());
                call.out.bulk(b"group");
                call.out.bulk(command.group.as_bytes());
            }
        }
        (b"getkeys", 4..) => {
            let args = call.args.from(2);
            let command = find(&args[0]).ok_or(Failure::fixed("ERR Invalid command specified"))?;
            if !command.takes(args.len()) {
                return Err(Failure::fixed(
                    "ERR Invalid number of arguments specified for command",
                ));
            }
            let keys = command.keys.of(args);
            if keys.is_empty() {
                return Err(Failure::fixed("ERR The command has no key arguments"));
            }
            call.out.array(keys.len());
            for key in keys {
                call.out.bulk(key);
            }
        }
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

/// `COMMAND LIST`: all names, or those that a filter lets pass.
fn list(call: &mut Call) -> Done {
    let wanted: Vec<&str> = match call.args.len() {
        2 => TABLE.iter().map(|it| it.name).collect(),
        5 if call.is(2, "filterby") && call.is(3, "pattern") => {
            let pattern = call.arg(4).to_ascii_lowercase();
            let names = TABLE.iter().map(|it| it.name);
            names
                .filter(|it| matches(&pattern, it.as_bytes()))
                .collect()
        }
        5 if call.is(2, "filterby") && call.is(3, "aclcat") => {
            let name = String::from_utf8_lossy(call.arg(4)).to_lowercase();
            let category = categories::Categories::named(&name);
            let is_in = |it: &&Command| category.is_some_and(|all| categories::of(it).meets(all));
            TABLE.iter().filter(is_in).map(|it| it.name).collect()
        }
        // There are no modules.
        5 if call.is(2, "filterby") && call.is(3, "module") => Vec::new(),
        _ => return Err(Failure::SYNTAX),
    };
    call.out.array(wanted.len());
    wanted.iter().for_each(|it| call.out.bulk(it.as_bytes()));
    Ok(())
}

fn describe(call: &mut Call, command: &Command) {
    let out = &mut *call.out;
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(i64::from(command.arity));
    let flags = command.flags.names();
    out.set(flags.len());
    for flag in flags {
        out.simple(flag);
    }
    let (first, last, step) = command.keys.positions();
    out.integer(first);
    out.integer(last);
    out.integer(step);
    let categories: Vec<&str> = categories::of(command).names().collect();
    out.set(categories.len());
    for category in categories {
        out.simple(&format!("@{category}"));
    }
    out.set(0);
    out.array(0);
    out.array(0);
}

pub(super) fn slowlog(call: &mut Call) -> Done {
    let sub = call.arg(1).to_ascii_lowercase();
    match (&sub[..], call.args.len()) {
        (b"get", 2 | 3) => {
            let count = if call.args.len() == 3 {
                call.integer(2)?
            } else {
                10
            };
            if count < -1 {
                return Err(Failure::fixed(
                    "ERR count should be greater than or equal to -1",
                ));
            }
            let entries = call.shared.slowlog.entries(usize::try_from(count).ok());
            call.out.array(entries.len());
            for entry in entries {
                call.out.array(6);
                call.out.integer(entry.id as i64);
                call.out.integer(entry.at);
                call.out.integer(entry.micros as i64);
                call.out.array(entry.args.len());
                for arg in &entry.args {
                    call.out.bulk(arg);
                }
                call.out.bulk(entry.address.as_bytes());
                call.out.bulk(&entry.name);
            }
        }
        (b"len", 2) => call.out.count(call.shared.slowlog.len()),
        (b"reset", 2) => {
            call.shared.slowlog.reset();
            call.out.ok();
        }
        _ => return call.help_or_unknown(),
    }
    Ok(())
}

pub(super) async fn save(call: &mut Call<'_>) -> Done {
    // Of BGSAVE: SAVE takes no arguments.
    if call.args.len() > 2 || call.args.len() == 2 && !call.is(1, "schedule") {
        return Err(Failure::SYNTAX);
    }
    call.keyspace().store().sync().await?;
    call.shared.stats.saved.store(call.now / 1000, Relaxed);
    match call.command.name {
        "bgsave" => call.out.simple("Background saving started"),
        _ => call.out.ok(),
    }
    Ok(())
}

pub(super) fn lastsave(call: &mut Call) -> Done {
    call.out.integer(call.shared.stats.saved.load(Relaxed));
    Ok(())
}

/// `BACKUP name`: not of Redis. Other clients are served meanwhile.
pub(super) async fn backup(call: &mut Call<'_>) -> Done {
    let Some(backups) = &call.shared.config.options.backups else {
        return Err(Failure::fixed(
            "ERR this server makes no backups: start it with --backups FOLDER",
        ));
    };
    let name = std::str::from_utf8(call.arg(1)).ok();
    // One folder below that of backups, and nothing else.
    let name =
        name.filter(|it| !it.is_empty() && !it.starts_with('.') && !it.contains(['/', '\\']));
    let Some(name) = name else {
        return Err(Failure::fixed(
            "ERR a backup's name has no slashes and does not begin with a dot",
        ));
    };
    let copied = call.keyspace().store().backup(&backups.join(name)).await?;
    let (segments, bytes) = (copied.segments, copied.bytes);
    call.out
        .simple(&format!("OK {segments} segments, {bytes} bytes"));
    Ok(())
}
