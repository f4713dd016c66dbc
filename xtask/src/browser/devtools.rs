//! Talks with a browser in the DevTools protocol, over its standard input and output: messages of
//! JSON, each ended by a zero byte.
//!
//! Only as much JSON is read as our own questions are answered with: a string, an identifier,
//! whether an event is an error.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// For how long an answer is waited for. A browser that is alive answers within moments, however
/// busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser, which ends with it.
pub struct Page {
    browser: Child,
    input: ChildStdin,
    messages: Receiver<String>,
    /// Number of the last question.
    asked: u32,
    session: String,
    /// What the console said that is an error, and exceptions that nobody caught.
    pub errors: Vec<String>,
}

impl Page {
    /// An empty page.
    pub fn new(mut browser: Child) -> Result<Self, String> {
        let input = browser.stdin.take().ok_or("the browser has no input")?;
        let output = browser.stdout.take().ok_or("the browser has no output")?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let text = String::from_utf8_lossy(&message).into_owned();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        let mut page = Page {
            browser,
            input,
            messages,
            asked: 0,
            session: String::new(),
            errors: Vec::new(),
        };
        let made = page.call("Target.createTarget", r#"{"url":"about:blank"}"#)?;
        let target = text_of(&made, "targetId").ok_or("the browser opens no page")?;
        let attach = format!(r#"{{"targetId":{},"flatten":true}}"#, quoted(&target));
        let attached = page.call("Target.attachToTarget", &attach)?;
        page.session = text_of(&attached, "sessionId").ok_or("the page has no session")?;
        page.call("Runtime.enable", "{}")?;
        page.call("Log.enable", "{}")?;
        page.call("Page.enable", "{}")?;
        Ok(page)
    }

    /// Begins to load what is at an address.
    pub fn open(&mut self, url: &str) -> Result<(), String> {
        let parameters = format!(r#"{{"url":{}}}"#, quoted(url));
        self.call("Page.navigate", &parameters).map(drop)
    }

    /// Asks the browser for something. Returns its answer.
    pub fn call(&mut self, method: &str, parameters: &str) -> Result<String, String> {
        self.asked += 1;
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!(r#","sessionId":{}"#, quoted(session)),
        };
        let id = self.asked;
        write!(
            self.input,
            r#"{{"id":{id},"method":"{method}","params":{parameters}{session}}}{}"#,
            '\0'
        )
        .and_then(|()| self.input.flush())
        .map_err(|error| format!("the browser does not listen: {error}"))?;
        let is_answer = format!(r#"{{"id":{id},"#);
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let message = message.map_err(|_| format!("the browser does not answer {method}"))?;
            if message.starts_with(&is_answer) {
                return match message.contains(r#""error":{"#) {
                    true => Err(format!("{method}: {message}")),
                    false => Ok(message),
                };
            }
            self.errors.extend(error_in(&message));
        }
    }

    /// Evaluates an expression of JavaScript in the page that comes to a string.
    pub fn evaluate(&mut self, expression: &str) -> Result<String, String> {
        let expression = quoted(expression);
        let answer = self.call(
            "Runtime.evaluate",
            &format!(r#"{{"expression":{expression},"returnByValue":true}}"#),
        )?;
        match answer.contains(r#""exceptionDetails""#) {
            true => Err(format!("{expression}: {answer}")),
            false => Ok(text_of(&answer, "value").unwrap_or_default()),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

/// What an event says, if it is an error: of the console, the log (a file that isn't there, a
/// policy that is broken), or an exception.
fn error_in(event: &str) -> Option<String> {
    let is = |part: &str| event.contains(part);
    let is_error = is(r#""method":"Runtime.exceptionThrown""#)
        || (is(r#""method":"Runtime.consoleAPICalled""#) && is(r#""type":"error""#))
        || (is(r#""method":"Log.entryAdded""#) && is(r#""level":"error""#));
    is_error.then(|| {
        let said = text_of(event, "description").or_else(|| text_of(event, "text"));
        said.unwrap_or_else(|| event.into())
    })
}

/// The first string of this name in a message.
fn text_of(message: &str, name: &str) -> Option<String> {
    let (_, rest) = message.split_once(&format!(r#""{name}":""#))?;
    let mut text = String::new();
    let mut rest = rest.chars();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => match rest.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok()?;
                    text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_went_in() {
        let text = "a \"b\" \\ c\nd\u{1}–";
        let message = format!(r#"{{"id":1,"value":{},"other":"x"}}"#, quoted(text));
        assert_eq!(text_of(&message, "value").as_deref(), Some(text));
        assert_eq!(text_of(&message, "other").as_deref(), Some("x"));
        assert_eq!(text_of(&message, "none"), None);
        assert_eq!(text_of(r#"{"value":"never end"#, "value"), None);
        assert_eq!(
            text_of(r#"{"value":"\u2013"}"#, "value").as_deref(),
            Some("–")
        );
    }

    #[test]
    fn errors_are_told_from_other_events() {
        let thrown = r#"{"method":"Runtime.exceptionThrown","params":{"exceptionDetails":{"text":"Uncaught",
            "exception":{"description":"TypeError: x"}}}}"#;
        assert_eq!(error_in(thrown).as_deref(), Some("TypeError: x"));
        let console = |kind: &str| {
            let said = r#"{"method":"Runtime.consoleAPICalled","params":{"type":"KIND"}}"#;
            error_in(&said.replace("KIND", kind))
        };
        assert!(console("error").is_some() && console("log").is_none());
        let refused = r#"{"method":"Log.entryAdded","params":{"entry":{"level":"error","text":"Refused to load"}}}"#;
        assert_eq!(error_in(refused).as_deref(), Some("Refused to load"));
        assert_eq!(error_in(r#"{"method":"Page.loadEventFired"}"#), None);
    }
}
