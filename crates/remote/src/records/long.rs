//! Blocks that are longer than a node: lists of nodes.
//!
//! The words of such a block lie in nodes one after the other. Other nodes list them: each has the
//! block's place, the address of the next list, the number of nodes that it lists, and these.

use futures_util::future::try_join_all;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::fabric::Connection;
use crate::image::WORDS;

use super::blocks::{Blocks, NODE};

/// Words of a list before the nodes.
const HEAD: usize = 3;
/// The most nodes of a list.
const LISTED: usize = WORDS - HEAD;
/// Nodes that are read or written at a time.
const AT_A_TIME: usize = 64;

/// The nodes of a long block: those that list others, and those that are listed.
#[derive(Default)]
pub(super) struct Nodes {
    lists: Vec<Address>,
    data: Vec<Address>,
}

impl Nodes {
    /// Nodes for so many words.
    ///
    /// # Errors
    /// As [`Blocks::take`]; none is taken then.
    pub async fn take(
        blocks: &Blocks,
        connection: &Connection,
        server: u64,
        words: usize,
    ) -> Result<Nodes> {
        let count = words.div_ceil(WORDS);
        let mut nodes = Nodes::default();
        for number in 0..count + count.div_ceil(LISTED) {
            let to = match number < count {
                true => &mut nodes.data,
                false => &mut nodes.lists,
            };
            match blocks.take(connection, server + number as u64, NODE).await {
                Ok(node) => to.push(node),
                Err(error) => {
                    nodes.free(blocks, connection).await;
                    return Err(error);
                }
            }
        }
        Ok(nodes)
    }

    /// The first list.
    pub fn first(&self) -> Address {
        self.lists[0]
    }

    /// Writes the words of a block at a place.
    ///
    /// # Errors
    /// A memory server does not answer.
    pub async fn write(&self, connection: &Connection, place: u64, words: &[u64]) -> Result<()> {
        let data = self.data.iter().copied().zip(words.chunks(WORDS));
        let listed = self.data.chunks(LISTED).enumerate();
        let lists = listed.map(|(number, nodes)| {
            let next = self.lists.get(number + 1).map_or(0, |next| next.word());
            let head = [place, next, nodes.len() as u64];
            let list: Vec<u64> = head
                .into_iter()
                .chain(nodes.iter().map(|it| it.word()))
                .collect();
            (self.lists[number], list)
        });
        let data = data.map(|(at, words)| (at, words.to_vec()));
        let mut writes = data.chain(lists);
        loop {
            let some: Vec<_> = writes.by_ref().take(AT_A_TIME).collect();
            if some.is_empty() {
                return Ok(());
            }
            let some = some
                .into_iter()
                .map(|(at, words)| connection.write(at, words));
            try_join_all(some).await?;
        }
    }

    /// The nodes of the block that begins here. `None`: there is none of this place.
    ///
    /// # Errors
    /// A memory server does not answer.
    pub async fn read(
        connection: &Connection,
        place: u64,
        first: Address,
    ) -> Result<Option<Nodes>> {
        let mut nodes = Nodes::default();
        let mut list = first;
        loop {
            let words = read_any(connection, list).await?;
            let Some(&[found, next, count]) = words.first_chunk::<HEAD>() else {
                return Ok(None);
            };
            if found != place || count > LISTED as u64 || nodes.lists.contains(&list) {
                return Ok(None);
            }
            nodes.lists.push(list);
            let listed = &words[HEAD..HEAD + count as usize];
            nodes
                .data
                .extend(listed.iter().copied().map(Address::of_word));
            if next == 0 {
                return Ok(Some(nodes));
            }
            list = Address::of_word(next);
        }
    }

    /// The words in the nodes that are listed.
    ///
    /// # Errors
    /// A memory server does not answer.
    pub async fn words(&self, connection: &Connection) -> Result<Vec<u64>> {
        let mut words = Vec::with_capacity(WORDS * self.data.len());
        for some in self.data.chunks(AT_A_TIME) {
            let read = some.iter().map(|&node| read_any(connection, node));
            words.extend(try_join_all(read).await?.into_iter().flatten());
        }
        Ok(words)
    }

    /// Frees all of them.
    pub async fn free(self, blocks: &Blocks, connection: &Connection) {
        for node in self.lists.into_iter().chain(self.data) {
            blocks.free(connection, node, NODE).await;
        }
    }
}

/// The words of a node. There are none where no memory is: the list that named the node was read
/// while it was used for something else.
async fn read_any(connection: &Connection, node: Address) -> Result<Vec<u64>> {
    match connection.read(node, WORDS).await {
        Err(Error::OutOfRange(_) | Error::NoServer(_)) => Ok(Vec::new()),
        result => result,
    }
}
