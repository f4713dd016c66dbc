//! A child process, as the runner sees it.
//!
//! Each map has its own process, and only one process works at any moment. So each map has its own
//! unfragmented heap and its own resident bytes, and it fails alone: a peer that panics, deadlocks
//! or corrupts its memory is left out with the reason, and the others continue.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::contender::Turn;
use crate::protocol::{Answer, Ask, Order};

/// How often a wait checks for its end.
const LOOK: Duration = Duration::from_millis(100);

/// The argument that makes this binary a child.
pub const CHILD: &str = "--child";

/// A running child. Drop kills it.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Answer>,
    /// The last non-empty line of its standard error.
    complaint: Arc<Mutex<String>>,
}

impl Process {
    /// Starts a child.
    ///
    /// # Errors
    /// One line: the process cannot be started.
    pub fn start(order: &Order, malloc_huge_pages: bool) -> Result<Process, String> {
        let failed = |error: std::io::Error| format!("can't start a process: {error}");
        let order = serde_json::to_string(order).map_err(|error| error.to_string())?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(CHILD).arg(order);
        if malloc_huge_pages {
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
        // In its own process group: the runner handles interrupts from the terminal.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let input = child.stdin.take();
        let (sender, answers) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Ok(answer) = serde_json::from_str(&line)
                        && sender.send(answer).is_err()
                    {
                        break;
                    }
                }
            });
        }
        let complaint = Arc::new(Mutex::new(String::new()));
        if let Some(errors) = child.stderr.take() {
            let complaint = complaint.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    let mut last = complaint.lock().unwrap_or_else(PoisonError::into_inner);
                    if !line.trim().is_empty() && !line.starts_with("note: ") {
                        *last = line;
                    }
                }
            });
        }
        Ok(Process {
            child,
            input,
            answers,
            complaint,
        })
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// One line: the child reported an error, died, or did not answer within `patience`; or the run
    /// was interrupted.
    pub fn ask(
        &mut self,
        ask: &Ask,
        patience: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Turn, String> {
        let mut text = serde_json::to_string(ask).map_err(|error| error.to_string())?;
        text.push('\n');
        let told = self
            .input
            .as_mut()
            .map(|input| input.write_all(text.as_bytes()));
        if !matches!(told, Some(Ok(()))) {
            return Err(self.death());
        }
        let begin = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(Answer::Done(turn)) => return Ok(turn),
                Ok(Answer::Wrong(why)) => return Err(why),
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

    /// How the child ended.
    fn death(&mut self) -> String {
        self.input = None;
        let end = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        // Another thread receives its last words on stderr.
        std::thread::sleep(LOOK);
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match complaint.as_str() {
            "" => format!("died: {end}"),
            said => format!("died: {end}: {said}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may hang, and has no state to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
