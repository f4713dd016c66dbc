//! Passwords, of which only hashes are kept.

use sha2::{Digest, Sha256};

/// The SHA-256 of a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Password([u8; 32]);

impl Password {
    pub fn of(password: &[u8]) -> Password {
        Password(Sha256::digest(password).into())
    }

    /// From 64 hexadecimal digits, in lower case.
    pub fn from_hex(digits: &[u8]) -> Option<Password> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Password(bytes))
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it is this one, in a time that tells nothing about where they differ.
    pub fn is(&self, other: &Password) -> bool {
        let differ = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}
