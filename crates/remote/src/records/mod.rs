//! Records of bytes: keys and values of any length in the pool, and the tree over them.
//!
//! The tree leads from a *place*, a number that the caller computes from a key, to a block of the
//! pool with the record: its key and its value. So records are in the order of their places, and
//! keys that change hands by their places take their blocks with them, uncopied. Keys of one place
//! share a block; they are few if places have enough bits of a hash.
//!
//! A change writes a new block, then the tree's word, and then frees the old block. All of it is in
//! the pool when the change ends, so a compute server that dies loses nothing that it acknowledged.
//! At worst it loses the memory of blocks that it had free, or was writing.

mod block;
mod blocks;
mod long;
mod page;
mod paged;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::address::Address;
use crate::cache::Flights;
use crate::error::{Error, Result};
use crate::fabric::{Connection, Fabric};
use crate::member::Member;
use crate::tree::{Options, RemoteTree};

pub use block::Record;
use block::{Block, Word, bytes_of};
use blocks::Blocks;
use long::Nodes;
pub use paged::{Changed, PagedMap, Walk};

/// The most bytes that the records of a place take together, 8 for each and 16 more included.
pub const MAX_RECORD: usize = 8 << 20;

/// Counts of changes. A power of two.
const STAMPS: u64 = 4096;
/// Blocks that a listing reads at a time.
const AT_A_TIME: usize = 64;

/// Records of bytes that a compute server shares with others, as a [`Member`].
///
/// Nobody may hand keys over ([`Member::hand_over`]) whose records are being read or changed
/// meanwhile.
pub struct Records {
    member: Member,
    blocks: Blocks,
    /// Places that are being changed.
    changing: Flights,
    /// Each counts the changes of some places: what was read of a block counts if its memory was
    /// not free in between.
    stamps: Box<[AtomicU64]>,
    /// Pages that were written so far.
    pages: AtomicU64,
}

impl Records {
    /// Joins those who share a tree, as [`Member::join`] does; its changes are written through.
    ///
    /// # Errors
    /// As there.
    pub async fn join(
        fabric: Arc<dyn Fabric>,
        options: Options,
        lease: Duration,
    ) -> Result<Records> {
        let options = Options {
            write_through: true,
            ..options
        };
        let servers = fabric.servers();
        Ok(Records {
            member: Member::join(fabric, options, lease).await?,
            blocks: Blocks::new(servers),
            changing: Flights::default(),
            stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect(),
            pages: AtomicU64::new(0),
        })
    }

    /// The member that has the places.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The value of a key, whose place this is.
    ///
    /// # Errors
    /// The place is not this server's, or a memory server does not answer.
    pub async fn get(&self, place: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let records = self.records_at(place).await?.into_iter();
        let mut found = records.filter(|it| it.key == key);
        Ok(found.next().map(|it| it.value))
    }

    /// Replaces the value of a key by what `change` makes of it, with its mark; `None` removes it.
    /// Returns the value before.
    ///
    /// # Errors
    /// As [`get`](Self::get); or the record is too long, or the pool full, and nothing was changed.
    /// If a memory server does not answer, it may have been changed.
    pub async fn update(
        &self,
        place: u64,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Option<(Vec<u8>, bool)>,
    ) -> Result<Option<Vec<u8>>> {
        let _turn = self.changing.begin(Address::of_word(place)).await;
        let (word, mut block) = match self.block_at(place).await? {
            Some((word, block)) => (Some(word), block),
            None => (None, Block::default()),
        };
        let at = block.records.iter().position(|it| it.key == key);
        let before = at.map(|at| block.records.remove(at).value);
        match change(before.as_deref()) {
            Some((value, marked)) => block.records.push(Record {
                key: key.into(),
                value,
                marked,
            }),
            None if before.is_none() => return Ok(None),
            None => {}
        }
        match block.records.is_empty() {
            true => self.tree().remove(place).await.map(|_| ())?,
            false => self.write(place, &block).await?,
        }
        self.stamp(place).fetch_add(1, SeqCst);
        if let Some(word) = word {
            self.free(place, word).await;
        }
        Ok(before)
    }

    /// Sets the value of a key, and returns the one before; `marked` has [`list`](Self::list) find
    /// it.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn put(
        &self,
        place: u64,
        key: &[u8],
        value: &[u8],
        marked: bool,
    ) -> Result<Option<Vec<u8>>> {
        let change = |_: Option<&[u8]>| Some((value.to_vec(), marked));
        self.update(place, key, change).await
    }

    /// Removes a key, and returns its value.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn remove(&self, place: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.update(place, key, |_| None).await
    }

    /// Records of a range of places, with these, in their order: those of so many places; only
    /// marked ones if that is wanted. Returns the place at which to go on, too.
    ///
    /// # Errors
    /// As [`get`](Self::get), of any of them.
    pub async fn list(
        &self,
        places: RangeInclusive<u64>,
        most: usize,
        only_marked: bool,
    ) -> Result<(Vec<(u64, Record)>, Option<u64>)> {
        let end = *places.end();
        let mut scan = self.tree().scan(places)?.limit(most);
        let (mut wanted, mut seen, mut last) = (Vec::new(), 0, None);
        while let Some((place, word)) = scan.next().await? {
            if !only_marked || Word::of_word(word).is_marked() {
                wanted.push(place);
            }
            seen += 1;
            last = Some(place);
        }
        let mut listed = Vec::new();
        for some in wanted.chunks(AT_A_TIME) {
            let read = some.iter().map(|&place| self.records_at(place));
            for (&place, records) in some.iter().zip(try_join_all(read).await?) {
                let records = records.into_iter().filter(|it| it.marked || !only_marked);
                listed.extend(records.map(|it| (place, it)));
            }
        }
        let next = last
            .filter(|_| seen == most)
            .and_then(|it| it.checked_add(1));
        Ok((listed, next.filter(|&it| it <= end)))
    }

    /// How many records a range of places has.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn count(&self, places: RangeInclusive<u64>) -> Result<u64> {
        let mut scan = self.tree().scan(places)?;
        let mut count = 0;
        while let Some((place, word)) = scan.next().await? {
            count += match Word::of_word(word).has_several() {
                true => self.records_at(place).await?.len() as u64,
                false => 1,
            };
        }
        Ok(count)
    }

    /// Leaves, as [`Member::leave`] does, and gives free memory back. Nothing may be under way.
    ///
    /// # Errors
    /// As there.
    pub async fn leave(&self) -> Result<()> {
        self.blocks.give_back(self.connection()).await;
        self.member.leave().await
    }

    /// All records of a place.
    async fn records_at(&self, place: u64) -> Result<Vec<Record>> {
        let found = self.block_at(place).await?;
        Ok(found.map_or_else(Vec::new, |it| it.1.records))
    }

    /// The block of a place.
    async fn block_at(&self, place: u64) -> Result<Option<(Word, Block)>> {
        let mut unread = None;
        loop {
            let stamp = self.stamp(place).load(SeqCst);
            let Some(word) = self.tree().get(place).await?.map(Word::of_word) else {
                return Ok(None);
            };
            let block = self.read(place, word).await;
            // If the block was freed meanwhile, its memory may have been used again.
            if self.stamp(place).load(SeqCst) != stamp {
                continue;
            }
            match block? {
                Some(block) => return Ok(Some((word, block))),
                None if unread == Some(word) => return Err(Error::Damaged(word.address())),
                // The place may be another member's since, and the block with it.
                None => unread = Some(word),
            }
        }
    }

    /// The block of a place. `None`: there is another one.
    async fn read(&self, place: u64, word: Word) -> Result<Option<Block>> {
        let words = match word.size() {
            Some(size) => {
                let words = bytes_of(size) / 8;
                self.connection().read(word.address(), words).await?
            }
            None => match Nodes::read(self.connection(), place, word.address()).await? {
                Some(nodes) => nodes.words(self.connection()).await?,
                None => return Ok(None),
            },
        };
        Ok(Block::of_words(&words, place))
    }

    /// Writes a block, and then the tree's word.
    async fn write(&self, place: u64, block: &Block) -> Result<()> {
        let word = self.write_block(place, block).await?;
        match self.tree().insert(place, word.word()).await {
            // Nothing leads to the new block.
            Err(error @ (Error::NotOwned(_) | Error::PoolFull(_))) => {
                self.free(place, word).await;
                Err(error)
            }
            result => result.map(|_| ()),
        }
    }

    /// Writes a block of a place, to which nothing leads yet.
    async fn write_block(&self, place: u64, block: &Block) -> Result<Word> {
        let connection = self.connection();
        let bytes = block.bytes();
        if bytes > MAX_RECORD {
            return Err(Error::RecordTooLong(bytes));
        }
        let words = block.words(place);
        match block.size() {
            Some(size) => {
                let at = self.blocks.take(connection, place, size).await?;
                // Without an answer it may be written later: its memory is not used again.
                connection.write(at, words).await?;
                Ok(Word::new(at, Some(size), block))
            }
            None => {
                let nodes = Nodes::take(&self.blocks, connection, place, words.len()).await?;
                nodes.write(connection, place, &words).await?;
                Ok(Word::new(nodes.first(), None, block))
            }
        }
    }

    /// Frees a block that the tree has no more.
    async fn free(&self, place: u64, word: Word) {
        let connection = self.connection();
        match word.size() {
            Some(size) => self.blocks.free(connection, word.address(), size).await,
            // Without an answer its memory is lost to the pool.
            None => {
                if let Ok(Some(nodes)) = Nodes::read(connection, place, word.address()).await {
                    nodes.free(&self.blocks, connection).await;
                }
            }
        }
    }

    fn stamp(&self, place: u64) -> &AtomicU64 {
        &self.stamps[(place % STAMPS) as usize]
    }

    fn tree(&self) -> &RemoteTree {
        self.member.tree()
    }

    fn connection(&self) -> &Connection {
        self.tree().connection()
    }
}
