//! Calls of the file system that may take milliseconds, on a thread of their own: to free a file's
//! blocks, and to have a folder's names on the disk. The thread that drives the disk, and whatever
//! else it serves, goes on meanwhile.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, SendError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::Buffer;
use crate::pending::Pending;
use crate::queue::Queue;

type Call = Box<dyn FnOnce() + Send>;

/// A thread that makes calls one after the other. It starts with the first one.
#[derive(Default)]
pub(crate) struct Aside(OnceLock<Option<Sender<Call>>>);

impl Aside {
    /// Has the thread make a call. This thread does where there is no other.
    pub fn run(&self, call: impl FnOnce() + Send + 'static) {
        let call: Call = Box::new(call);
        let refused = match self.0.get_or_init(start) {
            Some(calls) => calls.send(call).err().map(|SendError(call)| call),
            None => Some(call),
        };
        if let Some(call) = refused {
            call();
        }
    }
}

fn start() -> Option<Sender<Call>> {
    let (sender, calls) = mpsc::channel::<Call>();
    let work = || {
        for call in calls {
            // A waker, which is a caller's code, may panic. Others wait for what comes next.
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
    };
    let builder = thread::Builder::new().name("timberline-files".into());
    builder.spawn(work).ok().map(|_| sender)
}

/// Makes a call aside, and waits for its result.
pub(crate) async fn result_of(
    queue: &Arc<Queue>,
    call: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let ticket = queue.new_ticket();
    let pending = Pending::new(queue, ticket);
    let of = Arc::clone(queue);
    queue.aside().run(move || {
        let result = call().map(|()| 0);
        of.complete(ticket, (Buffer::default(), result));
    });
    pending.await.1.map(|_| ())
}
