//! From memory to the files: flushes, commits, and segments made in advance.

use std::io;
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer};

use crate::head::{AT_ONCE, Flush, Head, Heat};
use crate::header::Header;
use crate::log::{RESERVE, SPARES, State};
use crate::record::{Kind, Record};
use crate::segment::Segment;
use crate::store::Inner;
use crate::{Error, Store, join};

/// What to do next.
enum Work {
    /// Flush and seal the oldest head that is full.
    Seal,
    /// Flush the heads; and sync the hot one, or both.
    Flush { commit: bool, all: bool },
    /// Make a segment.
    Segment,
    /// Everything is on the disk, and the store is closing.
    End,
}

impl Store {
    /// Moves records from memory to the disk, cleans segments and writes checkpoints, until
    /// [`close`](Self::close) or a write fails. Writers wait for it, so it has to run beside them,
    /// once for a store. A thread of its own runs it by [a driver of its
    /// own](timberline_io::Disk::another_driver), so that neither waits for the other's thread.
    ///
    /// If it panics, or is dropped before its end, all who wait get [`Error::ReadOnly`], as do all
    /// writes from then on.
    pub async fn maintain(&self) -> Result<(), Error> {
        let mut ending = Ending {
            inner: &self.inner,
            is_over: false,
        };
        let others = join(self.inner.clean_all(), self.inner.checkpoint_all());
        let (mut flushes, mut others) = (pin!(self.inner.flush_all()), pin!(others));
        let mut are_others = true;
        // It is over when the flushes are: the others need them. They come first, so that the disk
        // has their next write while the others are at work.
        std::future::poll_fn(|context| {
            let flushed = flushes.as_mut().poll(context);
            if flushed.is_pending() && are_others {
                are_others = others.as_mut().poll(context).is_pending();
            }
            flushed
        })
        .await?;
        self.inner.write_checkpoint(true).await;
        ending.is_over = true;
        Ok(())
    }

    /// Has no more writes begin. [`maintain`](Self::maintain) ends when all are on the disk.
    pub fn close(&self) {
        let mut state = self.inner.log.lock();
        state.closing = true;
        // What a commit wrote of the cold head is in its file, but not on the disk.
        state.want_sync();
    }

    /// Begins a commit of all that was written, without waiting. Called by a timer, it bounds what
    /// a crash loses under [`Durability::None`](crate::Durability::None).
    pub fn begin_commit(&self) {
        let mut state = self.inner.log.lock();
        if state.durable < state.sequence && !state.commit_wanted {
            state.commit_wanted = true;
            state.changed();
        }
    }
}

/// Maintenance, which has to come to its end: otherwise whoever waits for it would wait for ever.
struct Ending<'a> {
    inner: &'a Inner,
    is_over: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let reason = match std::thread::panicking() {
            true => "its maintenance panicked",
            false => "its maintenance was ended",
        };
        let reason = Arc::new(io::Error::other(reason));
        let mut state = self.inner.log.lock();
        state.failed.get_or_insert(reason);
        state.changed();
    }
}

impl Inner {
    async fn flush_all(&self) -> Result<(), Error> {
        let mut buffers = [Buffer::default(), Buffer::default()];
        loop {
            let done = match self.log.wait(next_work).await {
                Work::Seal => self.seal_beside_other(&mut buffers).await,
                Work::Flush { commit, all } => self.flush(commit, all, &mut buffers).await,
                Work::Segment => {
                    self.make_segment().await;
                    Ok(())
                }
                Work::End => return Ok(()),
            };
            if let Err(error) = done {
                let reason = match &error {
                    Error::Disk(_, reason) => Arc::clone(reason),
                    other => Arc::new(io::Error::other(other.to_string())),
                };
                let mut state = self.log.lock();
                state.failed = Some(reason);
                state.changed();
                return Err(error);
            }
        }
    }

    /// Seals the oldest full head. What goes to the other kind of head is flushed meanwhile, as far
    /// as that waits for no full one.
    async fn seal_beside_other(&self, [full, other]: &mut [Buffer; 2]) -> Result<(), Error> {
        let heat = match self.log.lock().full[0].heat {
            Heat::Hot => Heat::Cold,
            Heat::Cold => Heat::Hot,
        };
        let is_full = |state: &State| state.full.iter().any(|it| it.heat == heat);
        let other = self.write_out(other, |it| (!is_full(it)).then(|| it.head(heat)));
        let (sealed, flushed) = join(self.seal(full), other).await;
        sealed.and(flushed)
    }

    /// Flushes a full head, in two steps, so that the record that seals it says the truth.
    async fn seal(&self, buffer: &mut Buffer) -> Result<(), Error> {
        self.write_out(buffer, |state| state.full.first_mut())
            .await?;
        let segment = {
            let mut state = self.log.lock();
            let head = state.full.first_mut().expect("only this removes heads");
            Arc::clone(&head.segment)
        };
        segment.sync().await?;
        {
            let mut state = self.log.lock();
            let sequence = state.full[0].sequence();
            if state.full[0].heat == Heat::Hot {
                state.durable = state.durable.max(sequence);
            }
            state.changed();
            let seal = Record::new(Kind::Seal, sequence, &[], &[]);
            state.full[0].reserve(seal.bytes())?;
            state.full[0].append(&seal);
        }
        self.write_out(buffer, |state| state.full.first_mut())
            .await?;
        segment.sync().await?;
        self.log.lock().sealed();
        Ok(())
    }

    /// Flushes both heads at the same time: a write keeps the disk busy for longer than the thread.
    async fn flush(
        &self,
        commit: bool,
        all: bool,
        [hot, cold]: &mut [Buffer; 2],
    ) -> Result<(), Error> {
        let (sequence, wanted) = {
            let mut state = self.log.lock();
            state.commit_wanted = false;
            state.hot.mark();
            state.cold.mark();
            (state.hot.sequence(), state.sync_wanted)
        };
        // Heads that became full meanwhile go first: what is on the disk ends at one record.
        let hot = self.write_out(hot, |it| it.full.is_empty().then_some(&mut it.hot));
        let cold = self.write_out(cold, |it| it.full.is_empty().then_some(&mut it.cold));
        let (hot, cold) = join(hot, cold).await;
        hot.and(cold)?;
        if !commit && !all {
            return Ok(());
        }
        let (hot, cold) = {
            let state = self.log.lock();
            (
                Arc::clone(&state.hot.segment),
                Arc::clone(&state.cold.segment),
            )
        };
        let ends = [&hot, &cold].map(|it| it.written());
        hot.sync().await?;
        if all {
            cold.sync().await?;
        }
        let mut state = self.log.lock();
        // If the head changed meanwhile, the full one is sealed first and says what is durable.
        if state.full.is_empty() {
            state.durable = state.durable.max(sequence);
            state.hot.synced(ends[0]);
            if all {
                state.cold.synced(ends[1]);
                state.synced = wanted;
            }
        }
        state.changed();
        Ok(())
    }

    /// Writes what a head has in memory now to its file, a part at a time, from this buffer.
    async fn write_out(
        &self,
        buffer: &mut Buffer,
        head: impl Fn(&mut State) -> Option<&mut Head>,
    ) -> Result<(), Error> {
        let Some(end) = head(&mut self.log.lock()).map(|it| it.end()) else {
            return Ok(());
        };
        let half = self.log.options().segment_bytes / 2;
        loop {
            let flush = match head(&mut self.log.lock()) {
                Some(head) if head.segment.written() < end => {
                    let most = (head.unflushed() / 4).clamp(*AT_ONCE.start(), *AT_ONCE.end());
                    head.flush(self.reads.at_once(most).min(half), take(buffer))?
                }
                _ => None,
            };
            let Some(flush) = flush else {
                return Ok(());
            };
            *buffer = self.carry_out(flush).await?;
        }
    }

    /// Writes and returns the buffer.
    async fn carry_out(&self, flush: Flush) -> Result<Buffer, Error> {
        let (segment, bytes) = (flush.segment, (flush.end - flush.start) as usize);
        let blocks = bytes.next_multiple_of(BLOCK);
        let (buffer, written) = segment
            .file
            .write_all(flush.buffer, 0..blocks, flush.start)
            .await;
        written.map_err(Error::disk(&segment.path))?;
        // What cleaning moved is rarely wanted.
        if flush.heat == Heat::Hot {
            let first = segment.written();
            let dropped = self
                .window
                .add(segment.id(), flush.start, first, &buffer[..bytes]);
            self.fit_cache();
            for chunk in dropped {
                self.cache_current(&chunk);
                self.window.recycle(chunk);
            }
        }
        let mut state = self.log.lock();
        // The head may have become a full one.
        let head = state.heads().find(|it| it.segment.id() == segment.id());
        head.expect("heads that are not flushed stay")
            .flushed(flush.end);
        state.changed();
        Ok(buffer)
    }

    /// Makes a segment in advance, or notes why not.
    async fn make_segment(&self) {
        let (id, sequence, exist) = {
            let mut state = self.log.lock();
            let id = state.next;
            state.next.0 += 1;
            (id, state.sequence, state.spares.len())
        };
        let options = self.log.options();
        let made = if exist + self.log.segments().len() >= options.segments() {
            Err(Error::Full)
        } else {
            let header = Header {
                id,
                store: self.id,
                sequence,
            };
            let bytes = options.segment_bytes;
            Segment::create(&self.disk, &self.folder, header, bytes, options).await
        };
        let mut state = self.log.lock();
        match made {
            Ok(segment) => {
                state.spares.push(Arc::new(segment));
                state.cleaning_wanted = true;
                state.changed();
            }
            Err(error) => {
                // Where the store was opened on a full disk, its head is the reserve's.
                state.hot.is_of_reserve |= state.spares.len() < RESERVE;
                state.has_no_space(error);
            }
        }
    }
}

fn next_work(state: &mut State) -> Option<Work> {
    if !state.full.is_empty() {
        return Some(Work::Seal);
    }
    let all = state.synced < state.sync_wanted;
    let is_dirty = state.durable < state.sequence || state.cold.unflushed() > 0;
    let commit = state.commit_wanted || state.closing && is_dirty;
    if commit || all || state.hot.is_due() || state.cold.is_due() {
        return Some(Work::Flush {
            commit,
            all: all || state.closing,
        });
    }
    if state.closing {
        return Some(Work::End);
    }
    (state.spares.len() < SPARES && state.no_segments.is_none()).then_some(Work::Segment)
}
