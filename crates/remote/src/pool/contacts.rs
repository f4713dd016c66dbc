//! Where members can be asked, for those who send clients to each other; and which data the pool
//! has. It is in the first chunk of memory server 0.
//!
//! | at | what |
//! |---|---|
//! | [`CONTACTS`] | for each place: a member's number; length, checksum and text of its address |
//! | [`ORIGIN`] | a lock: who has it makes a tree; then [`Origin`], two words |

use std::net::SocketAddr;

use crate::address::{Address, ComputeId};
use crate::error::{Error, Result};
use crate::fabric::Connection;

use super::directory::{MAX_MEMBERS, MEMBERS};

/// Behind members and reports.
pub(crate) const CONTACTS: Address = Address::new(0, 208 << 10);
/// The lock of [`Origin`], which follows it.
pub(crate) const ORIGIN: Address = CONTACTS.add(8 * (WORDS * MAX_MEMBERS) as u64);

/// Words of a contact.
const WORDS: usize = 10;
/// Of the address.
const TEXT: usize = 8 * (WORDS - 2);

const _: () = assert!(MEMBERS.offset() < CONTACTS.offset());
const _: () = assert!(super::reports::MOVES.offset() + 8 <= CONTACTS.offset());
const _: () = assert!(ORIGIN.offset() as usize + 3 * 8 <= super::CHUNK);

/// Writes the address of the member with this place.
///
/// # Errors
/// Memory server 0 does not answer.
pub(crate) async fn write(
    connection: &Connection,
    number: usize,
    address: SocketAddr,
) -> Result<()> {
    let at = CONTACTS.add(8 * (WORDS * number) as u64);
    let words = words(connection.compute(), address);
    let attempt = async || connection.write(at, words.clone()).await;
    connection.insist(attempt).await
}

/// The addresses of all that have written one, those who are gone included.
///
/// # Errors
/// Memory server 0 does not answer.
pub(crate) async fn read(connection: &Connection) -> Result<Vec<(ComputeId, SocketAddr)>> {
    let words = connection.read(CONTACTS, WORDS * MAX_MEMBERS).await?;
    Ok(words.chunks(WORDS).filter_map(of_words).collect())
}

fn words(compute: ComputeId, address: SocketAddr) -> Vec<u64> {
    let mut text = address.to_string().into_bytes();
    let head = text.len() as u64 | u64::from(crc32c::crc32c(&text)) << 32;
    text.resize(TEXT, 0);
    let text = text.as_chunks().0.iter();
    let text = text.map(|word| u64::from_le_bytes(*word));
    [compute.number(), head].into_iter().chain(text).collect()
}

/// One that is being written is none yet.
fn of_words(words: &[u64]) -> Option<(ComputeId, SocketAddr)> {
    let (&[compute, head], text) = words.split_first_chunk()?;
    let text: Vec<u8> = text.iter().flat_map(|it| it.to_le_bytes()).collect();
    let text = text.get(..head as u32 as usize)?;
    let is_whole = crc32c::crc32c(text) == (head >> 32) as u32;
    let text = std::str::from_utf8(text).ok().filter(|_| is_whole)?;
    Some((ComputeId::new(compute)?, text.parse().ok()?))
}

/// Which data a pool has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// A number of the data, which no other data have.
    pub data: u64,
    /// Versions of records that were written to this pool are above that.
    pub base: u64,
}

impl Origin {
    /// Reads it.
    ///
    /// # Errors
    /// Memory server 0 does not answer.
    pub(crate) async fn read(connection: &Connection) -> Result<Origin> {
        match connection.read(ORIGIN.add(8), 2).await?[..] {
            [data, base] => Ok(Origin { data, base }),
            _ => Err(Error::NotANode(ORIGIN)),
        }
    }

    /// Writes it. The caller has the lock.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) async fn write(self, connection: &Connection) -> Result<()> {
        connection
            .write(ORIGIN.add(8), vec![self.data, self.base])
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written_or_not_at_all() {
        let compute = ComputeId::new(7).unwrap();
        for text in [
            "127.0.0.1:6379",
            "[ffff:eeee:dddd:cccc:bbbb:aaaa:9999:8888%4294967295]:65535",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let words = words(compute, address);
            assert_eq!(words.len(), WORDS);
            assert_eq!(of_words(&words), Some((compute, address)));
            for index in 0..WORDS {
                let mut mixed = words.clone();
                mixed[index] = 0;
                let same = words[index] == 0;
                assert_eq!(of_words(&mixed).is_some(), same, "word {index}");
            }
        }
        assert_eq!(of_words(&[0; WORDS]), None);
    }
}
