//! Bytes from clients of the server: the same commands however they are cut.

use crate::resp::{Broken, Limits, Parser};

const LIMITS: Limits = Limits {
    arguments: 1 << 20,
    bulk: 512 << 20,
};

type Commands = (Vec<Vec<Vec<u8>>>, Option<Broken>);

/// The commands in bytes that come in pieces of this size, and why the rest is none.
fn parsed(input: &[u8], piece: usize) -> Commands {
    let (mut parser, mut start, mut commands) = (Parser::default(), 0, Vec::new());
    let mut end = 0;
    while end < input.len() {
        end = (end + piece).min(input.len());
        loop {
            let rest = &input[start..end];
            match parser.next(rest, LIMITS) {
                Ok(Some(taken)) => {
                    assert!(0 < taken && taken <= rest.len());
                    commands.push(parser.args(rest).iter().map(<[u8]>::to_vec).collect());
                    start += taken;
                }
                Ok(None) => break,
                Err(broken) => return (commands, Some(broken)),
            }
        }
        // Lengths are announced in few bytes: they reserve nothing.
        assert!(parser.memory() <= 4096 + 32 * input.len());
    }
    (commands, None)
}

fn encoded(command: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for arg in command {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Parses bytes at once, in pieces, and as they would be encoded.
pub fn commands(piece: u8, input: &[u8]) {
    let whole = parsed(input, usize::MAX / 2);
    assert_eq!(parsed(input, usize::from(piece).max(1)), whole);
    let again: Vec<u8> = whole.0.iter().flat_map(|it| encoded(it)).collect();
    assert_eq!(parsed(&again, usize::from(piece).max(1)), (whole.0, None));
}
