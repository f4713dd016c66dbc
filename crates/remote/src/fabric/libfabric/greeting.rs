//! What both sides say on the connection, after they have proved who they are and before the first
//! operation. Numbers are little-endian; a text has its length in two bytes before it.
//!
//! 1. The compute server sends the name of the provider and the name of its endpoint.
//! 2. The memory server sends a byte: [`READY`] and then a [`Welcome`], [`FENCED`], or [`REFUSED`]
//!    and why.
//!
//! Afterwards it sends nothing but, at the end, [`FENCED`].

use std::io::{self, Read};
use std::net::TcpStream;

use super::native::{MAX_NAME, Place};
use crate::fabric::handshake::{receive, send};

pub const READY: u8 = 0;
pub const FENCED: u8 = 1;
pub const REFUSED: u8 = 2;

/// What only the two sides know, in front of each message: endpoints take messages of everybody.
pub type Token = [u64; 2];

/// What a compute server has to know of a memory server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// How operations name the first byte of the memory: its address, and its key.
    pub memory: (u64, u64),
    /// Bytes of the memory.
    pub bytes: u64,
    pub token: Token,
    /// The endpoint's.
    pub name: Vec<u8>,
}

impl Welcome {
    pub fn place(&self) -> Place {
        let (at, key) = self.memory;
        Place { at, key }
    }
}

/// How a memory server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Ready(Welcome),
    Fenced,
    Refused(String),
}

fn text(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(u16::from_le_bytes(receive(stream)?));
    if length > MAX_NAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok(text)
}

fn send_text(stream: &TcpStream, head: &[u8], text: &[u8]) -> io::Result<()> {
    let text = &text[..text.len().min(MAX_NAME)];
    send(stream, &[head, &(text.len() as u16).to_le_bytes(), text])
}

/// The compute server's message.
pub fn introduce(stream: &TcpStream, provider: &str, name: &[u8]) -> io::Result<()> {
    send_text(stream, &[], provider.as_bytes())?;
    send_text(stream, &[], name)
}

/// The compute server's message, as it arrives: provider and name.
pub fn introduction(stream: &TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    Ok((text(stream)?, text(stream)?))
}

/// The memory server's answer.
pub fn answer(stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    match answer {
        Answer::Ready(welcome) => {
            let (at, key) = welcome.memory;
            let [one, other] = welcome.token;
            let numbers = [at, key, welcome.bytes, one, other].map(u64::to_le_bytes);
            let head = [&[READY], numbers.as_flattened()].concat();
            send_text(stream, &head, &welcome.name)
        }
        Answer::Fenced => send(stream, &[&[FENCED]]),
        Answer::Refused(why) => send_text(stream, &[REFUSED], why.as_bytes()),
    }
}

/// The memory server's answer, as it arrives.
pub fn answered(stream: &TcpStream) -> io::Result<Answer> {
    let number = || receive(stream).map(u64::from_le_bytes);
    match receive(stream)? {
        [READY] => Ok(Answer::Ready(Welcome {
            memory: (number()?, number()?),
            bytes: number()?,
            token: [number()?, number()?],
            name: text(stream)?,
        })),
        [FENCED] => Ok(Answer::Fenced),
        [REFUSED] => {
            let why = text(stream)?;
            Ok(Answer::Refused(String::from_utf8_lossy(&why).into_owned()))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        introduce(&one, "tcp", b"a name").unwrap();
        let (provider, name) = introduction(&other).unwrap();
        assert_eq!((&provider[..], &name[..]), (&b"tcp"[..], &b"a name"[..]));
        for said in [
            Answer::Ready(Welcome {
                memory: (1 << 40, u64::MAX),
                bytes: 3,
                token: [4, 5],
                name: vec![6; MAX_NAME],
            }),
            Answer::Fenced,
            Answer::Refused("another provider".into()),
        ] {
            answer(&other, &said).unwrap();
            assert_eq!(answered(&one).unwrap(), said);
        }
        // A name that is longer than any, and an answer that nobody gives.
        send(&one, &[&[255, 255]]).unwrap();
        assert!(introduction(&other).is_err());
        send(&other, &[&[9]]).unwrap();
        assert!(answered(&one).is_err());
    }
}
