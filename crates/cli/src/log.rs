//! What the server tells while it runs: events of `tracing` as lines on stderr, for people or as
//! JSON.
//!
//! There are no spans and no filters by module, so this is all that is needed, without
//! `tracing-subscriber` and the crates that it brings.

use std::fmt::{self, Debug, Write as _};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::Failure;
use crate::say::{one_line, tell};

/// What `--log-level` takes.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Threshold {
    /// Nothing
    Off,
    /// What ends the server
    Error,
    /// What an operator should look at: refused connections, records that were lost
    Warn,
    /// Also what happens now and then: slow commands, slots that move, a stop
    Info,
    /// Also each connection
    Debug,
}

/// What `--log-format` takes.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines for people
    Text,
    /// A JSON object a line
    Json,
}

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// The least severe events that are written to stderr
    #[arg(
        long,
        value_enum,
        default_value = "info",
        help_heading = "Log",
        value_name = "LEVEL"
    )]
    log_level: Threshold,
    /// How they are written
    #[arg(
        long,
        value_enum,
        default_value = "text",
        help_heading = "Log",
        value_name = "FORMAT"
    )]
    log_format: Format,
}

impl Args {
    /// Writes events from now on.
    pub fn begin(&self) -> Result<(), Failure> {
        let most = match self.log_level {
            Threshold::Off => LevelFilter::OFF,
            Threshold::Error => LevelFilter::ERROR,
            Threshold::Warn => LevelFilter::WARN,
            Threshold::Info => LevelFilter::INFO,
            Threshold::Debug => LevelFilter::DEBUG,
        };
        let lines = Lines {
            most,
            format: self.log_format,
        };
        tracing::subscriber::set_global_default(lines).map_err(Failure::failed)
    }

    /// Says something that is not an event: how the server starts and ends.
    pub fn tell(&self, line: impl fmt::Display) {
        match self.log_format {
            Format::Text => tell(line),
            Format::Json => {
                let fields = Map::from_iter([("message".into(), line.to_string().into())]);
                tell(object(&Level::INFO, SystemTime::now(), fields));
            }
        }
    }
}

/// Writes events as lines.
struct Lines {
    most: LevelFilter,
    format: Format,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most && metadata.is_event()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let (level, now) = (event.metadata().level(), SystemTime::now());
        let mut line = match self.format {
            Format::Text => text(level, now, &fields.0),
            Format::Json => object(level, now, fields.0),
        };
        line.push('\n');
        // In one piece, so that lines of several threads do not mix.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // No span is enabled.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event; its message is one of them.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }
}

fn text(level: &Level, at: SystemTime, fields: &Map<String, Value>) -> String {
    let mut line = format!("{} {level:>5}", utc(at));
    let message = fields.get("message").and_then(Value::as_str);
    let _ = write!(line, " {}", one_line(message.unwrap_or_default()));
    for (name, value) in fields.iter().filter(|it| it.0 != "message") {
        let _ = match value {
            Value::String(value) if value.contains([' ', '"', '=']) => {
                write!(line, " {name}={value:?}")
            }
            Value::String(value) => write!(line, " {name}={}", one_line(value)),
            value => write!(line, " {name}={value}"),
        };
    }
    line
}

fn object(level: &Level, at: SystemTime, fields: Map<String, Value>) -> String {
    let head = [
        ("time", utc(at)),
        ("level", level.to_string().to_lowercase()),
    ];
    let head = head.map(|(name, value)| (name.to_string(), Value::from(value)));
    let all: Map<String, Value> = head.into_iter().chain(fields).collect();
    Value::Object(all).to_string()
}

/// A time as RFC 3339 has it, in UTC, with milliseconds. The date is by Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms".
fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 1 March 0000, and the eras of 400 years since.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_767_225_599, "2025-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let at = UNIX_EPOCH + Duration::new(seconds, 7_000_000);
            assert_eq!(utc(at), expected);
        }
    }

    #[test]
    fn a_line_has_its_fields_whatever_is_in_them() {
        let mut fields = Map::new();
        fields.insert("message".into(), "a\nb".into());
        fields.insert("count".into(), 3.into());
        fields.insert("why".into(), "two words".into());
        let line = text(&Level::WARN, UNIX_EPOCH, &fields);
        let expected = "1970-01-01T00:00:00.000Z  WARN a\\nb count=3 why=\"two words\"";
        assert_eq!(line, expected);
        let line = object(&Level::WARN, UNIX_EPOCH, fields);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["level"], "warn");
        assert_eq!(read["message"], "a\nb");
        assert_eq!(read["count"], 3);
        assert!(!line.contains('\n'));
    }
}
