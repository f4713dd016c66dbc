//! Tables: one request a line, with its key in one column and perhaps its operation in another.
//!
//! Block traces have this form: `version,time,op,size,lbn`, with the SCSI commands 28 (read) and 2a
//! (write). The first line names the columns; without such a line, columns have numbers. Cells may
//! be in double quotes, but a comma within quotes still separates cells and causes an error about
//! the number of columns.

use super::error::{TraceError, all_quoted, quoted};
use super::requests::Requests;
use super::source::Source;

/// Default names of the columns for the key and for the operation.
const KEY_NAMES: [&str; 9] = [
    "key", "lbn", "lba", "block", "sector", "offset", "address", "obj_id", "id",
];
const OP_NAMES: [&str; 6] = ["op", "opcode", "operation", "type", "iotype", "rw"];
const TIME_NAMES: [&str; 5] = ["time", "timestamp", "ts", "time_us", "time_ns"];
/// Default values for reads and writes: words, and the SCSI commands READ and WRITE of 6, 10, 12
/// and 16 bytes in hexadecimal.
const READS: [&str; 8] = ["r", "read", "rs", "get", "08", "28", "a8", "88"];
const WRITES: [&str; 10] = [
    "w", "write", "ws", "put", "set", "update", "0a", "2a", "aa", "8a",
];

/// The maximum number of blocks of one request: more means a misread column.
const MOST_BLOCKS: u64 = 1 << 16;
/// Bits of a key within its device, if there are several devices.
const DEVICE_BITS: u32 = 44;

/// The roles of columns. Columns are given by number from 1, or by name, in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvColumns {
    /// Options with their values, as given.
    given: Vec<(String, String)>,
}

impl CsvColumns {
    /// Sets the option `name`. Returns whether the option exists:
    ///
    /// - `key`: the column of keys (or block numbers, offsets, …): whole numbers, decimal or `0x…`.
    /// - `op`: the column of operations.
    /// - `read`, `write`: a value of that column; repeat the option for further values.
    /// - `size`: the column of sizes in bytes. A request then touches every block it spans, one key
    ///   after another; without it, only its first.
    /// - `block`: bytes of a block, which is one key; 512 by default.
    /// - `offset`: instead of `key`, a column of offsets in bytes: the key is the number of the
    ///   block there.
    /// - `device`: a column of whole numbers that identifies the device: each has its own keys.
    /// - `time`: the column of the request's time.
    /// - `unit`: the unit of times: `ns`, `us`, `ms` or `s`. Without it, times are ignored.
    ///
    /// # Errors
    ///
    /// `block` is not a number of bytes, or `unit` is none of these.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, TraceError> {
        let wrong = match name {
            "key" | "op" | "read" | "write" | "size" | "offset" | "device" | "time" => None,
            "block" if value.parse().unwrap_or(0u64) == 0 => Some("a number of bytes from 1 on"),
            "unit" if unit(value).is_none() => Some("ns, us, ms or s"),
            "block" | "unit" => None,
            _ => return Ok(false),
        };
        if let Some(possible) = wrong {
            let what = format!("{name} is `{value}`: give {possible}");
            return Err(TraceError::in_format(what));
        }
        self.given.push((name.into(), value.into()));
        Ok(true)
    }

    /// Alibaba's block traces (github.com/alibaba/block-traces):
    /// `device_id,opcode,offset,length,timestamp` without a header line, offsets and lengths in
    /// bytes, times in µs. The volumes have 4 KiB blocks.
    pub fn alibaba() -> CsvColumns {
        let columns = ["device", "op", "offset", "size", "time"];
        let columns = columns.into_iter().zip(["1", "2", "3", "4", "5"]);
        let all = columns.chain([("unit", "us"), ("block", "4096")]);
        CsvColumns {
            given: all.map(|(name, it)| (name.into(), it.into())).collect(),
        }
    }

    fn values(&self, option: &str) -> impl DoubleEndedIterator<Item = &str> {
        let given = self.given.iter().filter(move |(name, _)| name == option);
        given.map(|(_, value)| value.as_str())
    }

    fn last(&self, option: &str) -> Option<&str> {
        self.values(option).next_back()
    }
}

/// The unit of a trace's times, in nanoseconds.
fn unit(text: &str) -> Option<u64> {
    match text {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        _ => None,
    }
}

/// A time in this unit, perhaps with decimals, in ns.
fn nanos(unit: u64, text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let nanos = number(whole)?.checked_mul(unit)?;
    if decimals.is_empty() {
        return Some(nanos);
    }
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: f64 = format!("0.{decimals}").parse().ok()?;
    nanos.checked_add((part * unit as f64) as u64)
}

/// Reads the requests of a table. `writes` is the fraction of writes if no column tells.
pub(super) fn read(
    source: &mut Source,
    columns: &CsvColumns,
    writes: f64,
) -> Result<Requests, TraceError> {
    let mut requests = Requests::new(writes);
    let mut table = None;
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if !source.read_line(&mut bytes)? {
            break;
        }
        let line = String::from_utf8_lossy(&bytes);
        if line.trim().is_empty() {
            continue;
        }
        let added = match &table {
            Some(table) => Table::add(table, &line, &mut requests),
            None => Table::of(columns, &line).and_then(|new| {
                let headless = !new.has_header(&line);
                let table = table.insert(new);
                if headless {
                    table.add(&line, &mut requests)
                } else {
                    Ok(())
                }
            }),
        };
        added.map_err(|what| source.error(what).at_line(number))?;
    }
    Ok(requests)
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_end_matches(['\n', '\r'])
        .split(',')
        .map(|cell| cell.trim().trim_matches('"'))
}

fn number(cell: &str) -> Option<u64> {
    match cell.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => cell.parse().ok(),
    }
}

#[derive(Clone, Debug)]
struct Column {
    index: usize,
    name: String,
}

#[derive(Debug)]
struct Table {
    width: usize,
    key: Column,
    /// The size of a key in the key column's unit: 1, or the bytes of a block.
    scale: u64,
    device: Option<Column>,
    op: Option<Column>,
    size: Option<Column>,
    time: Option<(Column, u64)>,
    block: u64,
    reads: Vec<String>,
    writes: Vec<String>,
}

impl Table {
    /// Finds the columns in the first line.
    fn of(columns: &CsvColumns, first: &str) -> Result<Table, String> {
        let names: Vec<&str> = cells(first).collect();
        let optional = |option| columns.last(option).map(|it| find(&names, it)).transpose();
        let usual = |usual: &[&str]| usual.iter().find_map(|name| find(&names, name).ok());
        let block = columns.last("block").and_then(|it| it.parse().ok());
        let block = block.unwrap_or(512);
        let (key, scale) = match optional("offset")? {
            Some(offset) => (Some(offset), block),
            None => (optional("key")?.or_else(|| usual(&KEY_NAMES)), 1),
        };
        let key = key.ok_or_else(|| {
            format!(
                "no column has a usual name for keys ({}); name one of {}, or its number, with csv:key=COLUMN",
                KEY_NAMES.join(", "),
                all_quoted(&names),
            )
        })?;
        // If the user names values of one kind only, the other has its default values.
        let values = |option, usual: &[&str]| -> Vec<String> {
            let given: Vec<String> = columns.values(option).map(String::from).collect();
            match given.is_empty() {
                true => usual.iter().copied().map(String::from).collect(),
                false => given,
            }
        };
        Ok(Table {
            width: names.len(),
            key,
            scale,
            device: optional("device")?,
            op: optional("op")?.or_else(|| usual(&OP_NAMES)),
            size: optional("size")?,
            time: optional("time")?
                .or_else(|| usual(&TIME_NAMES))
                .zip(columns.last("unit").and_then(unit)),
            block,
            reads: values("read", &READS),
            writes: values("write", &WRITES),
        })
    }

    /// Whether the first line names columns instead of being a request.
    fn has_header(&self, first: &str) -> bool {
        cells(first).nth(self.key.index).and_then(number).is_none()
    }

    fn add(&self, line: &str, requests: &mut Requests) -> Result<(), String> {
        let all: Vec<&str> = cells(line).collect();
        if all.len() != self.width {
            return Err(format!(
                "has {} columns where the first line has {}",
                all.len(),
                self.width
            ));
        }
        let cell = |column: &Column| all[column.index];
        let at = self.key.number(cell(&self.key))?;
        let write = self
            .op
            .as_ref()
            .map(|column| self.writes(column, cell(column)))
            .transpose()?;
        let size = self.size.as_ref().map(|column| column.number(cell(column)));
        let size = size.transpose()?;
        let first = at / self.scale;
        let blocks = match (size, self.scale) {
            (None, _) => 1,
            (Some(size), 1) => size.div_ceil(self.block).max(1),
            // A request that starts within a block may reach into one more.
            (Some(size), block) => (at % block).saturating_add(size.max(1)).div_ceil(block),
        };
        if blocks > MOST_BLOCKS || first.checked_add(blocks - 1).is_none() {
            let (size, block) = (size.unwrap_or(0), self.block);
            return Err(format!(
                "{size} bytes at {at} span {blocks} blocks of {block}; the maximum is {MOST_BLOCKS}"
            ));
        }
        let device = self.device.as_ref().map(|column| {
            let device = column.number(cell(column))?;
            self.space_of(device, first + blocks - 1)
        });
        let device = device.transpose()?.unwrap_or(0);
        (0..blocks).for_each(|block| requests.push(device + first + block, write));
        if let Some((column, unit)) = &self.time {
            let nanos = nanos(*unit, cell(column)).ok_or_else(|| {
                let (cell, name) = (quoted(cell(column)), &column.name);
                format!("{cell} in column `{name}` is not a time from 0 on")
            })?;
            requests.set_time(nanos);
        }
        Ok(())
    }

    /// The first key of a device, checked for room up to key `last`.
    fn space_of(&self, device: u64, last: u64) -> Result<u64, String> {
        let most = u64::MAX >> DEVICE_BITS;
        if device <= most && last >> DEVICE_BITS == 0 {
            return Ok(device << DEVICE_BITS);
        }
        Err(format!(
            "block {last} of device {device} is too large; at most {} of device {most} is possible",
            (1u64 << DEVICE_BITS) - 1
        ))
    }

    fn writes(&self, column: &Column, op: &str) -> Result<bool, String> {
        let among = |values: &[String]| values.iter().any(|value| value.eq_ignore_ascii_case(op));
        if among(&self.reads) {
            Ok(false)
        } else if among(&self.writes) {
            Ok(true)
        } else {
            Err(format!(
                "{} in column `{}` is neither a read ({}) nor a write ({}); name it with csv:read=VALUE or write=VALUE",
                quoted(op),
                column.name,
                self.reads.join(", "),
                self.writes.join(", "),
            ))
        }
    }
}

impl Column {
    fn number(&self, cell: &str) -> Result<u64, String> {
        let what = || {
            format!(
                "{} in column `{}` is not a whole number below 2^64",
                quoted(cell),
                self.name
            )
        };
        number(cell).ok_or_else(what)
    }
}

/// The column with this number or, if there is none, with this name. (The first line may hold
/// values, and one of them may equal the number.)
fn find(names: &[&str], name: &str) -> Result<Column, String> {
    let number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let by_number = number.filter(|&at| at < names.len());
    let is_it = |cell: &&str| cell.eq_ignore_ascii_case(name);
    match by_number.or_else(|| names.iter().position(is_it)) {
        Some(index) => Ok(Column {
            index,
            name: name.to_owned(),
        }),
        None => Err(format!(
            "there is no column `{name}`; there are {}",
            all_quoted(names)
        )),
    }
}

#[cfg(test)]
mod tests;
