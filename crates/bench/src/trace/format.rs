//! The format of a trace: given by the user, or guessed from the file's name.

use std::path::Path;

use super::csv::CsvColumns;
use super::error::TraceError;

/// The format of a trace. `writes` is the fraction of writes, in `[0, 1]`, if the trace does not
/// tell reads from writes.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceFormat {
    /// A table with a column of keys and perhaps one of operations.
    Csv {
        columns: Box<CsvColumns>,
        /// The fraction of writes, if no column tells.
        writes: f64,
    },
    /// Little-endian 32-bit keys.
    U32 { writes: f64 },
    /// Little-endian 64-bit keys.
    U64 { writes: f64 },
    /// One key a line, any bytes; the line's rank in byte order is the key in the map.
    Lines { writes: f64 },
}

impl TraceFormat {
    /// The possible formats, for messages and help.
    pub const POSSIBLE: &str = "csv[:key=COLUMN,op=COLUMN,read=VALUE,write=VALUE,size=COLUMN,block=BYTES,\
         offset=COLUMN,device=COLUMN,time=COLUMN,unit=ns|us|ms|s], alibaba[:block=BYTES], u32, u64, lines, each with \
         writes=SHARE";

    /// Parses a name and its options, e.g. `u32`, `lines:writes=0.2`,
    /// `csv:key=lbn,op=op,read=28,write=2a`.
    ///
    /// # Errors
    ///
    /// The name, an option or its value is not one of [`TraceFormat::POSSIBLE`].
    pub fn parse(text: &str) -> Result<TraceFormat, TraceError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let mut columns = match name {
            "alibaba" => CsvColumns::alibaba(),
            "csv" | "u32" | "u64" | "lines" => CsvColumns::default(),
            _ => return Err(unknown(format!("unknown format `{name}`"))),
        };
        let has_columns = ["csv", "alibaba"].contains(&name);
        let mut writes = 0.0;
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let Some((option, value)) = option
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
            else {
                return Err(unknown(format!(
                    "`{option}` is not of the form OPTION=VALUE"
                )));
            };
            if option == "writes" {
                writes = share(value)?;
            } else if !has_columns || !columns.set(option, value)? {
                return Err(unknown(format!("`{name}` has no option `{option}`")));
            }
        }
        Ok(match name {
            "csv" | "alibaba" => {
                let columns = Box::new(columns);
                TraceFormat::Csv { columns, writes }
            }
            "u32" => TraceFormat::U32 { writes },
            "u64" => TraceFormat::U64 { writes },
            _ => TraceFormat::Lines { writes },
        })
    }

    /// Guesses the format from the end of the file's name, without `.xz`: `.csv`; `.u32` or
    /// `.trace`; `.u64`; `.txt`, `.keys` or `.lines`.
    ///
    /// # Errors
    ///
    /// The name ends in none of these.
    pub fn guess(path: &Path) -> Result<TraceFormat, TraceError> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let plain = name.strip_suffix(".xz").unwrap_or(&name);
        let writes = 0.0;
        match plain.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
            "csv" => Ok(TraceFormat::Csv {
                columns: Box::default(),
                writes,
            }),
            "u32" | "trace" => Ok(TraceFormat::U32 { writes }),
            "u64" => Ok(TraceFormat::U64 { writes }),
            "txt" | "keys" | "lines" => Ok(TraceFormat::Lines { writes }),
            _ => Err(TraceError::in_file(
                path,
                format!(
                    "its name does not tell its format; say which with --trace-format: {}",
                    TraceFormat::POSSIBLE
                ),
            )),
        }
    }
}

fn share(value: &str) -> Result<f64, TraceError> {
    match value.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(TraceError::in_format(format!(
            "writes is `{value}`: give a fraction from 0 to 1"
        ))),
    }
}

fn unknown(what: String) -> TraceError {
    TraceError::in_format(format!("{what}; possible: {}", TraceFormat::POSSIBLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_are_read() {
        assert_eq!(
            TraceFormat::parse("u32").unwrap(),
            TraceFormat::U32 { writes: 0.0 }
        );
        assert_eq!(
            TraceFormat::parse("u64:writes=0.5").unwrap(),
            TraceFormat::U64 { writes: 0.5 }
        );
        assert_eq!(
            TraceFormat::parse("lines:").unwrap(),
            TraceFormat::Lines { writes: 0.0 }
        );
        let mut columns = CsvColumns::default();
        for (option, value) in [
            ("key", "lbn"),
            ("op", "op"),
            ("read", "28"),
            ("write", "2a"),
        ] {
            assert!(columns.set(option, value).unwrap());
        }
        let csv = TraceFormat::parse("csv:key=lbn,op=op,read=28,write=2a").unwrap();
        assert_eq!(
            csv,
            TraceFormat::Csv {
                columns: Box::new(columns),
                writes: 0.0
            }
        );
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, said) in [
            (
                "json",
                "trace format: unknown format `json`; possible: csv[:key=COLUMN",
            ),
            ("", "unknown format ``; possible: csv"),
            ("u32:key=1", "`u32` has no option `key`; possible: csv"),
            (
                "csv:column=1",
                "`csv` has no option `column`; possible: csv",
            ),
            ("csv:key", "`key` is not of the form OPTION=VALUE"),
            ("csv:key=", "`key=` is not of the form OPTION=VALUE"),
            (
                "u32:writes=20",
                "writes is `20`: give a fraction from 0 to 1",
            ),
            ("csv:unit=min", "unit is `min`: give ns, us, ms or s"),
            ("alibaba:column=1", "`alibaba` has no option `column`"),
            (
                "csv:block=0",
                "block is `0`: give a number of bytes from 1 on",
            ),
        ] {
            let error = TraceFormat::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "`{text}`: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn the_name_of_a_file_tells_its_format() {
        let guess = |name: &str| TraceFormat::guess(Path::new(name));
        let writes = 0.0;
        assert_eq!(
            guess("dir/w106.trace.xz").unwrap(),
            TraceFormat::U32 { writes }
        );
        assert_eq!(guess("A.U64.XZ").unwrap(), TraceFormat::U64 { writes });
        assert_eq!(guess("urls.txt").unwrap(), TraceFormat::Lines { writes });
        assert!(matches!(
            guess("cloud.csv").unwrap(),
            TraceFormat::Csv { .. }
        ));
        for name in ["csv", "blocks.bin", "x.xz", ".."] {
            let error = guess(name).unwrap_err().to_string();
            assert!(error.contains("--trace-format: csv"), "{error}");
        }
    }
}
