//! Tables: one request a line, its key in one column and what it does, perhaps, in another.
//!
//! Block traces come like this: `version,time,op,size,lbn`, with the SCSI commands 28 (read) and 2a
//! (write). The first line names the columns; without such a line, columns are named by number. Cells may
//! stand in double quotes, but commas within them are not understood and show as a wrong number of columns.

use super::error::TraceError;
use super::requests::Requests;
use super::source::Source;

/// Columns taken for the key, and for the operation, where the user names none.
const KEY_NAMES: [&str; 9] = [
    "key", "lbn", "lba", "block", "sector", "offset", "address", "obj_id", "id",
];
const OP_NAMES: [&str; 6] = ["op", "opcode", "operation", "type", "iotype", "rw"];
/// Operations taken for reads and writes where the user names none: words, and the SCSI commands READ and
/// WRITE of 6, 10, 12 and 16 bytes in hexadecimal.
const READS: [&str; 8] = ["r", "read", "rs", "get", "08", "28", "a8", "88"];
const WRITES: [&str; 10] = [
    "w", "write", "ws", "put", "set", "update", "0a", "2a", "aa", "8a",
];

/// The most blocks that one request may span: more is a misread column.
const MOST_BLOCKS: u64 = 1 << 16;

/// Which column is what. Columns are given by name, in any case, or by number from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvColumns {
    key: Option<String>,
    op: Option<String>,
    reads: Vec<String>,
    writes: Vec<String>,
    size: Option<String>,
    block: Option<u64>,
}

impl CsvColumns {
    /// Sets the option `name`, and says whether there is one:
    ///
    /// - `key`: the column of keys (or block numbers, offsets, …), whole numbers, decimal or `0x…`.
    /// - `op`: the column that says what a request does.
    /// - `read`, `write`: a value of that column; give the option again for further values.
    /// - `size`: the column of sizes in bytes. A request then touches every block it spans, one key after
    ///   another; without it, only its first.
    /// - `block`: the size of what one key stands for, bytes; 512 unless given.
    ///
    /// # Errors
    ///
    /// `block` is not a number of bytes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, TraceError> {
        match name {
            "key" => self.key = Some(value.to_owned()),
            "op" => self.op = Some(value.to_owned()),
            "read" => self.reads.push(value.to_owned()),
            "write" => self.writes.push(value.to_owned()),
            "size" => self.size = Some(value.to_owned()),
            "block" => match value.parse() {
                Ok(bytes) if bytes > 0 => self.block = Some(bytes),
                _ => {
                    let what =
                        format!("block is `{value}`, possible is a number of bytes from 1 on");
                    return Err(TraceError::in_format(what));
                }
            },
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads the requests of a table. `writes` is the share of writes where no column tells.
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

/// A column that was found.
#[derive(Clone, Debug)]
struct Column {
    index: usize,
    name: String,
}

/// How to read the lines of one table.
#[derive(Debug)]
struct Table {
    width: usize,
    key: Column,
    op: Option<Column>,
    size: Option<Column>,
    block: u64,
    reads: Vec<String>,
    writes: Vec<String>,
}

impl Table {
    /// Finds the columns in the first line.
    fn of(columns: &CsvColumns, first: &str) -> Result<Table, String> {
        let names: Vec<&str> = cells(first).collect();
        let optional =
            |named: &Option<String>| named.as_deref().map(|name| find(&names, name)).transpose();
        let usual = |usual: &[&str]| usual.iter().find_map(|name| find(&names, name).ok());
        let key = optional(&columns.key)?.or_else(|| usual(&KEY_NAMES)).ok_or_else(|| {
            format!(
                "no column has a usual name for keys ({}); name one of `{}`, or its number, with csv:key=COLUMN",
                KEY_NAMES.join(", "),
                names.join("`, `"),
            )
        })?;
        let values = |given: &[String], usual: &[&str]| {
            let usual = || usual.iter().map(|&value| value.to_owned()).collect();
            // Who names only one kind means the other by its usual values.
            if given.is_empty() {
                usual()
            } else {
                given.to_vec()
            }
        };
        Ok(Table {
            width: names.len(),
            key,
            op: optional(&columns.op)?.or_else(|| usual(&OP_NAMES)),
            size: optional(&columns.size)?,
            block: columns.block.unwrap_or(512),
            reads: values(&columns.reads, &READS),
            writes: values(&columns.writes, &WRITES),
        })
    }

    /// Whether the first line names columns rather than being a request.
    fn has_header(&self, first: &str) -> bool {
        cells(first).nth(self.key.index).and_then(number).is_none()
    }

    /// Adds what one line asks for.
    fn add(&self, line: &str, requests: &mut Requests) -> Result<(), String> {
        let (mut key, mut op, mut size) = ("", "", "");
        let mut width = 0;
        let is = |column: &Option<Column>, index| {
            column.as_ref().is_some_and(|column| column.index == index)
        };
        for (index, cell) in cells(line).enumerate() {
            width += 1;
            if index == self.key.index {
                key = cell;
            }
            if is(&self.op, index) {
                op = cell;
            }
            if is(&self.size, index) {
                size = cell;
            }
        }
        if width != self.width {
            return Err(format!(
                "has {width} columns where the first line has {}",
                self.width
            ));
        }
        let first = self.key.number(key)?;
        let write = self
            .op
            .as_ref()
            .map(|column| self.writes(column, op))
            .transpose()?;
        let blocks = match &self.size {
            None => 1,
            Some(column) => column.number(size)?.div_ceil(self.block).max(1),
        };
        if blocks > MOST_BLOCKS || first.checked_add(blocks - 1).is_none() {
            let block = self.block;
            return Err(format!(
                "{size} bytes at {first} span {blocks} blocks of {block}; at most {MOST_BLOCKS} may be"
            ));
        }
        (0..blocks).for_each(|block| requests.push(first + block, write));
        Ok(())
    }

    fn writes(&self, column: &Column, op: &str) -> Result<bool, String> {
        let among = |values: &[String]| values.iter().any(|value| value.eq_ignore_ascii_case(op));
        if among(&self.reads) {
            Ok(false)
        } else if among(&self.writes) {
            Ok(true)
        } else {
            Err(format!(
                "`{op}` in column `{}` is neither a read ({}) nor a write ({}); name it with csv:read=VALUE or write=VALUE",
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
                "`{cell}` in column `{}` is not a whole number below 2^64",
                self.name
            )
        };
        number(cell).ok_or_else(what)
    }
}

/// The column that has a name or, where none has, this number.
fn find(names: &[&str], name: &str) -> Result<Column, String> {
    let by_name = names
        .iter()
        .position(|cell| cell.eq_ignore_ascii_case(name));
    let by_number = || {
        name.parse()
            .ok()
            .and_then(|n: usize| n.checked_sub(1))
            .filter(|&n| n < names.len())
    };
    match by_name.or_else(by_number) {
        Some(index) => Ok(Column {
            index,
            name: name.to_owned(),
        }),
        None => Err(format!(
            "there is no column `{name}`; there are `{}`",
            names.join("`, `")
        )),
    }
}

#[cfg(test)]
mod tests;
