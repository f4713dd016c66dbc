//! A subject's own process: the runner's side of it, and what runs inside.
//!
//! Each map has its own process in each round, and only one process works at any moment. So each
//! map has its own unfragmented heap and its own resident bytes, and it fails alone: a peer that
//! panics, deadlocks or corrupts its memory is left out with the reason, and the others continue.
//!
//! The runner writes the name of a step in a line, and the child answers in a line of JSON. The
//! runner skips lines that are no answer (a peer may print).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::keys::{Keys, Kind, Strings, Words};
use crate::memory::Pages;
use crate::rows::{LOAD, LOAD_MANY};
use crate::subjects::named;
use crate::worker::{Setup, Step, Subject};

/// The argument that makes this binary a child.
pub const CHILD: &str = "--child";
/// The step that checks the map's answers.
pub const CHECK: &str = "check";
/// How often a wait checks for its end.
const LOOK: Duration = Duration::from_millis(100);

/// The setup of a child; its only argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// A name of [`crate::subjects::ROWS`].
    pub index: String,
    pub keys: Kind,
    /// The file of the keys, for kinds that may have one.
    pub file: Option<PathBuf>,
    pub records: u64,
    pub threads: u64,
    pub seed: u64,
    pub pages: Pages,
    /// Unmeasured time before a workload.
    pub warm: Duration,
    /// Measured time of a workload.
    pub length: Duration,
}

type Answer = Result<Step, String>;

/// Serves the subject that `order` (JSON) describes, until standard input ends.
///
/// # Errors
/// The parent is gone, or its message cannot be parsed.
pub fn serve(order: &str) -> Result<(), String> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    let mut subject = make(&order);
    // Not locked throughout: threads of a peer may print.
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let step = line.map_err(|error| error.to_string())?;
        let answer: Answer = match (&mut subject, step.as_str()) {
            (Err(why), _) => Err(why.clone()),
            (Ok(subject), CHECK) => subject.check().map(|()| Step::default()),
            (Ok(subject), LOAD) => subject.load(),
            (Ok(subject), LOAD_MANY) => subject.load_many(),
            (Ok(subject), name) => subject.run(name, order.warm, order.length),
        };
        let text = serde_json::to_string(&answer).expect("plain figures and strings");
        writeln!(output, "{text}").map_err(|error| error.to_string())?;
        output.flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn make(order: &Order) -> Result<Box<dyn Subject>, String> {
    order.pages.enforce()?;
    let name = &order.index;
    let row = named(name).ok_or_else(|| format!("unknown index `{name}`"))?;
    let unsupported = || format!("{name} takes no {} keys", order.keys.name());
    if order.keys.is_word() {
        let dense = order.keys == Kind::Dense;
        let with = row.words.as_ref().ok_or_else(unsupported)?;
        return (with.make)(setup(order, Words { dense }));
    }
    let keys = Strings::of(order.keys, order.file.as_ref())?;
    (row.strings.as_ref().ok_or_else(unsupported)?.make)(setup(order, keys))
}

fn setup<T: Keys>(order: &Order, keys: T) -> Setup<T> {
    Setup {
        keys,
        records: order.records,
        threads: order.threads,
        seed: order.seed,
    }
}

/// A running child. Drop kills it.
pub struct Child {
    process: std::process::Child,
    answers: Receiver<Answer>,
    /// The last non-empty line of its standard error.
    complaint: Arc<Mutex<String>>,
}

impl Child {
    /// Starts a child.
    ///
    /// # Errors
    /// One line: the process cannot be started.
    pub fn start(order: &Order) -> Result<Child, String> {
        let failed = |error: std::io::Error| format!("can't start a process: {error}");
        let text = serde_json::to_string(order).map_err(|error| error.to_string())?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(CHILD).arg(text);
        command.env("MALLOC_CONF", order.pages.malloc_options());
        // In its own process group: the runner handles interrupts from the terminal.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let (sender, answers) = channel();
        let output = process.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for answer in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                // Nobody waits for it any more.
                let _ = sender.send(answer);
            }
        });
        let complaint = Arc::new(Mutex::new(String::new()));
        let last = complaint.clone();
        let errors = process.stderr.take().expect("a pipe");
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if !line.trim().is_empty() && !line.starts_with("note: ") {
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
                }
            }
        });
        Ok(Child {
            process,
            answers,
            complaint,
        })
    }

    /// Asks for a step, and waits for the answer.
    ///
    /// # Errors
    /// One line: the child reported an error, died, or did not answer within `patience`; or the run
    /// was interrupted.
    pub fn ask(&mut self, step: &str, patience: Duration, interrupted: &AtomicBool) -> Answer {
        let input = self.process.stdin.as_mut().expect("a pipe");
        if input.write_all(format!("{step}\n").as_bytes()).is_err() {
            return Err(self.death());
        }
        let begin = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(self.death()),
                Err(RecvTimeoutError::Timeout) if interrupted.load(Relaxed) => {
                    return Err("interrupted".into());
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() > patience => {
                    let seconds = patience.as_secs();
                    return Err(format!("no answer for {seconds} s: stuck, or far too slow"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn death(&mut self) -> String {
        let end = match self.process.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        // Another thread receives its last words on stderr.
        std::thread::sleep(LOOK);
        let said = self.complaint.lock();
        let said = said.unwrap_or_else(PoisonError::into_inner);
        format!("died: {end}: {said}")
            .trim_end_matches([':', ' '])
            .into()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may hang, and has no state to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
