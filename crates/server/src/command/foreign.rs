//! Requests of another protocol: a web page can have a browser send them to this machine's ports.

use tracing::warn;

use crate::resp::Args;
use crate::seldom::Seldom;
use crate::session::Session;

/// Ends the connection if this is a line of HTTP that no client of Redis sends. What follows may be
/// commands, which somebody else wrote, so none of it is executed. Returns whether it was one.
pub(super) fn end_foreign(session: &mut Session, args: Args<'_>) -> bool {
    static EVENTS: Seldom = Seldom::new();
    let name = args.get(0).unwrap_or(&[]);
    if !name.eq_ignore_ascii_case(b"post") && !name.eq_ignore_ascii_case(b"host:") {
        return false;
    }
    session.quits = true;
    if let Some(held_back) = EVENTS.pass() {
        let client = session.client.address();
        warn!(
            client,
            held_back,
            "a connection is ended: it sent HTTP, perhaps a browser's that a web page misuses"
        );
    }
    true
}
