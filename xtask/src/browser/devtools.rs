//! A client of the DevTools protocol, over its standard input and output: messages of JSON, each
//! ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The timeout of an answer. A live browser answers within moments, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser, which ends with it.
pub struct Page {
    browser: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Number of the last question.
    asked: u32,
    session: Option<Value>,
    /// Errors on the console, and uncaught exceptions.
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
                let message = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut page = Page {
            browser,
            input,
            messages,
            asked: 0,
            session: None,
            errors: Vec::new(),
        };
        let made = page.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        let attached = page.call("Target.attachToTarget", attach)?;
        page.session = Some(attached["sessionId"].clone());
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            page.call(domain, json!({}))?;
        }
        Ok(page)
    }

    /// Begins to load the page at an address.
    pub fn open(&mut self, url: &str) -> Result<(), String> {
        self.call("Page.navigate", json!({"url": url})).map(drop)
    }

    /// Sends a command to the browser, and returns its answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.asked += 1;
        let mut question = json!({"id": self.asked, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            question["sessionId"] = session.clone();
        }
        write!(self.input, "{question}\0")
            .and_then(|()| self.input.flush())
            .map_err(|error| format!("the browser does not listen: {error}"))?;
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let mut message =
                message.map_err(|_| format!("the browser does not answer {method}"))?;
            if message["id"] == self.asked {
                return match message["error"].is_null() {
                    true => Ok(message["result"].take()),
                    false => Err(format!("{method}: {message}")),
                };
            }
            self.errors.extend(error_in(&message));
        }
    }

    /// Evaluates an expression of JavaScript in the page that comes to a string.
    pub fn evaluate(&mut self, expression: &str) -> Result<String, String> {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", parameters)?;
        match answer["exceptionDetails"].is_null() {
            true => Ok(answer["result"]["value"].as_str().unwrap_or("").into()),
            false => Err(format!("{expression}: {answer}")),
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

/// The message of an event, if it is an error: of the console, the log (a file that isn't there, a
/// policy that is broken), or an exception.
fn error_in(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    let (is_error, said) = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            let details = &parameters["exceptionDetails"];
            let said = &details["exception"]["description"];
            (
                true,
                if said.is_null() {
                    &details["text"]
                } else {
                    said
                },
            )
        }
        "Runtime.consoleAPICalled" => {
            let said = &parameters["args"][0];
            let said = said.get("description").unwrap_or(&said["value"]);
            (parameters["type"] == "error", said)
        }
        "Log.entryAdded" => {
            let entry = &parameters["entry"];
            (entry["level"] == "error", &entry["text"])
        }
        _ => return None,
    };
    is_error.then(|| {
        said.as_str()
            .map_or_else(|| event.to_string(), String::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_other_events() {
        let error_in = |event: &str| error_in(&serde_json::from_str(event).unwrap());
        let thrown = r#"{"method":"Runtime.exceptionThrown","params":{"exceptionDetails":{"text":"Uncaught",
            "exception":{"description":"TypeError: x"}}}}"#;
        assert_eq!(error_in(thrown).as_deref(), Some("TypeError: x"));
        let console = |kind: &str| {
            let said = r#"{"method":"Runtime.consoleAPICalled","params":{"type":"KIND","args":[{"value":"–"}]}}"#;
            error_in(&said.replace("KIND", kind))
        };
        assert_eq!(console("error").as_deref(), Some("–"));
        assert_eq!(console("log"), None);
        let refused = r#"{"method":"Log.entryAdded","params":{"entry":{"level":"error","text":"Refused to load"}}}"#;
        assert_eq!(error_in(refused).as_deref(), Some("Refused to load"));
        assert_eq!(error_in(r#"{"method":"Page.loadEventFired"}"#), None);
    }
}
