//! Properties of commands.

/// Properties of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags(u16);

impl Flags {
    pub const NONE: Flags = Flags(0);
    /// It changes keys.
    pub const WRITE: Flags = Flags(1);
    /// It reads keys.
    pub const READ: Flags = Flags(2);
    /// It can take memory, so is refused when there is none.
    pub const GROWS: Flags = Flags(4);
    /// Allowed before a client has authenticated itself.
    pub const NO_AUTH: Flags = Flags(8);
    /// Allowed to a subscriber that speaks RESP2.
    pub const SUBSCRIBED: Flags = Flags(16);
    /// Run at once inside `MULTI`.
    pub const NOT_QUEUED: Flags = Flags(32);
    /// Refused inside `MULTI`.
    pub const NOT_IN_MULTI: Flags = Flags(64);
    /// It needs all keys' locks.
    pub const ALL_KEYS: Flags = Flags(128);
    /// It locks its keys itself.
    pub const UNLOCKED: Flags = Flags(256);
    /// Mostly it does not look at what it sets.
    pub const OVERWRITES: Flags = Flags(512);

    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Redis' names for them.
    pub fn names(self) -> Vec<&'static str> {
        let names = [
            (Flags::WRITE, "write"),
            (Flags::READ, "readonly"),
            (Flags::GROWS, "denyoom"),
            (Flags::NO_AUTH, "no_auth"),
        ];
        names
            .iter()
            .filter(|it| self.has(it.0))
            .map(|it| it.1)
            .collect()
    }
}
