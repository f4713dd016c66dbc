//! Transactions: commands that are queued, and run with all their keys locked.

use super::{Call, Done, Failure, Flags, Queued, acl, changes, run};
use crate::keyspace::Locks;
use crate::resp::Args;
use crate::session::Session;
use crate::shared::Shared;

/// Commands whose records are read from the disk at the same time, before others have to wait for
/// the locks.
const AHEAD: usize = 64;

/// Commands since `MULTI`.
#[derive(Default, Debug)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    /// One of them could not be queued.
    failed: bool,
    memory: usize,
}

impl Transaction {
    /// Adds a command.
    pub fn queue(&mut self, command: &'static super::Command, args: Args<'_>) {
        let queued = Queued::new(command, args);
        self.memory += queued.memory() + size_of::<Queued>();
        self.queued.push(queued);
    }

    /// The keys of all commands.
    pub fn keys(&self) -> Vec<&[u8]> {
        let queued = self.queued.iter();
        queued
            .flat_map(|it| it.command.keys.of(it.args()))
            .collect()
    }

    /// Whether it has commands that change something.
    pub fn changes(&self) -> bool {
        self.queued.iter().any(|it| changes(it.command))
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// It can't be executed any more.
    pub fn fail(&mut self) {
        self.failed = true;
    }
}

pub(super) fn multi(call: &mut Call) -> Done {
    if call.session.transaction.is_some() {
        return Err(Failure::fixed("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Transaction::default());
    call.out.ok();
    Ok(())
}

pub(super) fn discard(call: &mut Call) -> Done {
    if call.session.transaction.take().is_none() {
        return Err(Failure::fixed("ERR DISCARD without MULTI"));
    }
    unwatch(call);
    call.out.ok();
    Ok(())
}

pub(super) async fn exec(call: &mut Call<'_>) -> Done {
    let Some(transaction) = call.session.transaction.take() else {
        return Err(Failure::fixed("ERR EXEC without MULTI"));
    };
    if transaction.failed {
        unwatch(call);
        return Err(Failure::fixed(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    let places = transaction.queued.iter().take(AHEAD);
    let places = places.map(|it| it.command.place(it.args()));
    let _fetched = Box::pin(call.keyspace().fetch(places)).await;
    let _locks = lock(call, &transaction).await;
    if !is_unchanged(call).await? {
        call.out.null_array();
        return Ok(());
    }
    call.out.array(transaction.queued.len());
    for queued in &transaction.queued {
        let (command, args) = (queued.command, queued.args());
        if !call.session.user.has_all_rights()
            && let Some(denied) = acl::denied(call.shared, call.session, command, args)
        {
            call.out.error(&acl::refusal_in_exec(&denied));
            continue;
        }
        let queued = Call::new(call.shared, call.session, command, args, call.out, call.now);
        run(Call {
            in_exec: true,
            ..queued
        })
        .await;
    }
    Ok(())
}

/// Locks the keys of all commands, and those that are watched.
async fn lock<'a>(call: &Call<'a>, transaction: &Transaction) -> Locks<'a> {
    let queued = &transaction.queued;
    if queued
        .iter()
        .any(|it| it.command.flags.has(Flags::ALL_KEYS))
    {
        return call.keyspace().locks.lock_all().await;
    }
    let keys = queued.iter().flat_map(|it| it.command.keys.of(it.args()));
    let watched = call.session.watched.iter().map(|it| &it.key[..]);
    call.keyspace().locks.lock(keys.chain(watched)).await
}

/// Whether no key that is watched was changed, or expired, since. Ends the watches.
async fn is_unchanged(call: &mut Call<'_>) -> Result<bool, Failure> {
    let keyspace = call.keyspace();
    let mut unchanged = true;
    let all = std::mem::take(&mut call.session.watched);
    all.iter().for_each(|it| call.session.forget(&it.key));
    for watched in all {
        let expired = watched.existed && keyspace.find(&watched.key, call.now).await?.is_none();
        unchanged &= keyspace.watches.unwatch(&watched) && !expired;
    }
    Ok(unchanged)
}

pub(super) async fn watch(call: &mut Call<'_>) -> Done {
    if call.session.transaction.is_some() {
        return Err(Failure::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    for key in call.keys() {
        if call.session.watched.iter().all(|it| *it.key != *key) {
            let existed = call.keyspace().find(key, call.now).await?.is_some();
            let watched = call.keyspace().watches.watch(key, existed);
            call.session.watched.push(watched);
            call.session.keep(key);
        }
    }
    call.out.ok();
    Ok(())
}

pub(super) fn unwatch_all(call: &mut Call) -> Done {
    unwatch(call);
    call.out.ok();
    Ok(())
}

/// Ends the watches of a client.
pub(crate) fn unwatch(call: &mut Call) {
    end_watches(call.shared, call.session);
}

/// Ends the watches of a session.
pub(crate) fn end_watches(shared: &Shared, session: &mut Session) {
    for watched in std::mem::take(&mut session.watched) {
        session.forget(&watched.key);
        shared.keyspace.watches.unwatch(&watched);
    }
}
