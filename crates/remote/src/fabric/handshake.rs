//! The first messages of a connection: both sides learn that the other speaks the same protocol and
//! knows the same key.
//!
//! 1. The server sends its protocol, which run of it this is, and a nonce.
//! 2. The client sends its protocol, its number as a compute server, a nonce, and its proof.
//! 3. The server sends whether it agrees, and its own proof.
//!
//! A proof is HMAC-SHA-256, under the key, of who proves, both nonces, the server's run, and the
//! client's number. What follows is neither encrypted nor signed: against somebody who can change
//! packets, use a tunnel.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use crate::address::ComputeId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The name and the version of a protocol: of what follows the first messages.
pub type Protocol = [u8; 8];

const NONCE: usize = 32;
const PROOF: usize = 32;
/// The fewest bytes of a key.
const LEAST_KEY: usize = 16;

const AGREED: u8 = 0;
const WRONG_KEY: u8 = 1;

/// A secret that compute servers and memory servers share.
#[derive(Clone)]
pub struct Key(Arc<[u8]>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// A key that is too short: at least 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortKey;

impl fmt::Display for ShortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key needs at least {LEAST_KEY} bytes")
    }
}

impl std::error::Error for ShortKey {}

impl Key {
    /// These bytes, at least 16 of them.
    ///
    /// # Errors
    /// They are fewer.
    pub fn new(bytes: &[u8]) -> Result<Key, ShortKey> {
        match bytes.len() >= LEAST_KEY {
            true => Ok(Key(bytes.into())),
            false => Err(ShortKey),
        }
    }

    /// The content of a file, without white space around it.
    ///
    /// # Errors
    /// The file cannot be read, or the key is too short.
    pub fn read(path: &Path) -> io::Result<Key> {
        let bytes = std::fs::read(path)?;
        Key::new(bytes.trim_ascii())
            .map_err(|short| io::Error::new(io::ErrorKind::InvalidData, short))
    }

    fn mac(&self, prover: &[u8], agreed: &Agreed) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length will do");
        for part in [prover, &agreed.server_nonce, &agreed.client_nonce] {
            mac.update(part);
        }
        for number in [agreed.run, agreed.compute.number()] {
            mac.update(&number.to_le_bytes());
        }
        mac
    }
}

/// What both sides prove that they saw.
struct Agreed {
    run: u64,
    compute: ComputeId,
    server_nonce: [u8; NONCE],
    client_nonce: [u8; NONCE],
}

const BY_CLIENT: &[u8] = b"client";
const BY_SERVER: &[u8] = b"server";

impl Agreed {
    fn proof(&self, key: Option<&Key>, prover: &[u8]) -> [u8; PROOF] {
        key.map_or([0; PROOF], |key| {
            key.mac(prover, self).finalize().into_bytes().into()
        })
    }

    fn is_proved(&self, key: Option<&Key>, prover: &[u8], proof: &[u8; PROOF]) -> bool {
        match key {
            Some(key) => key.mac(prover, self).verify_slice(proof).is_ok(),
            // A server without a key takes everybody; a client without one asks for no proof.
            None => true,
        }
    }
}

/// Why a connection ends before it has begun.
#[derive(Debug)]
pub enum Refused {
    /// The other side is something else, or another version.
    OtherProtocol,
    /// The keys differ, or only one side has one.
    WrongKey,
    /// The connection failed.
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OtherProtocol => f.write_str("it speaks another protocol, or another version"),
            Refused::WrongKey => f.write_str("the keys of the two sides differ"),
            Refused::Io(error) => error.fmt(f),
        }
    }
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(io::Error::from)?;
    Ok(nonce)
}

/// A number that no other run of a server has: its memory is lost with it.
pub fn new_run() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}

/// The next so many bytes.
pub fn receive<const BYTES: usize>(mut stream: &TcpStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Sends all parts at once.
pub fn send(mut stream: &TcpStream, parts: &[&[u8]]) -> io::Result<()> {
    stream.write_all(&parts.concat())
}

/// A number that no other compute server has.
pub fn new_compute() -> io::Result<ComputeId> {
    loop {
        if let Some(compute) = ComputeId::new(getrandom::u64().map_err(io::Error::from)?) {
            return Ok(compute);
        }
    }
}

/// The client's side. Returns which run of the server it is.
pub fn greet(
    stream: &TcpStream,
    protocol: Protocol,
    key: Option<&Key>,
    compute: ComputeId,
) -> Result<u64, Refused> {
    if receive(stream)? != protocol {
        return Err(Refused::OtherProtocol);
    }
    let agreed = Agreed {
        run: u64::from_le_bytes(receive(stream)?),
        compute,
        server_nonce: receive(stream)?,
        client_nonce: nonce()?,
    };
    let proof = agreed.proof(key, BY_CLIENT);
    let number = compute.number().to_le_bytes();
    send(stream, &[&protocol, &number, &agreed.client_nonce, &proof])?;
    match receive::<1>(stream)? {
        [AGREED] => {}
        [WRONG_KEY] => return Err(Refused::WrongKey),
        _ => return Err(Refused::OtherProtocol),
    }
    match agreed.is_proved(key, BY_SERVER, &receive(stream)?) {
        true => Ok(agreed.run),
        false => Err(Refused::WrongKey),
    }
}

/// The server's side. Returns which compute server it is.
pub fn welcome(
    stream: &TcpStream,
    protocol: Protocol,
    key: Option<&Key>,
    run: u64,
) -> Result<ComputeId, Refused> {
    let server_nonce = nonce()?;
    send(stream, &[&protocol, &run.to_le_bytes(), &server_nonce])?;
    if receive(stream)? != protocol {
        return Err(Refused::OtherProtocol);
    }
    let number = u64::from_le_bytes(receive(stream)?);
    let compute = ComputeId::new(number).ok_or(Refused::OtherProtocol)?;
    let agreed = Agreed {
        run,
        compute,
        server_nonce,
        client_nonce: receive(stream)?,
    };
    if !agreed.is_proved(key, BY_CLIENT, &receive(stream)?) {
        send(stream, &[&[WRONG_KEY]])?;
        return Err(Refused::WrongKey);
    }
    let proof = agreed.proof(key, BY_SERVER);
    send(stream, &[&[AGREED], &proof])?;
    Ok(compute)
}
