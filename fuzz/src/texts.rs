//! Text from users or the kernel: any input gives a value or a one-line error, never a panic.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use timberline_bench::run::Budget;
use timberline_bench::trace::{Split, Trace, TraceFormat};
use timberline_bench::workload::{Distribution, Workload};
use timberline_tier::emulator::Profile;
use timberline_tier::topology::{NodeList, Topology};

use crate::manifest::{Machine, unpack};

/// An error is one line, and not empty.
fn one_line<T, E: Display>(outcome: Result<T, E>) -> Option<T> {
    outcome
        .map_err(|error| {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains('\n'), "{said:?}");
        })
        .ok()
}

/// Options of the command line.
pub fn options(text: &str) {
    // A message quotes its input, line breaks included.
    if text.contains('\n') {
        return;
    }
    one_line(TraceFormat::parse(text));
    one_line(TraceFormat::guess(text.as_ref()));
    one_line(Workload::parse(text));
    one_line(Distribution::parse(text));
    one_line(Budget::parse(text));
    one_line(Profile::parse(text));
    if let Some(list) = one_line(text.parse::<NodeList>()) {
        // Printing and parsing again gives the same.
        assert_eq!(list.to_string().parse().ok(), Some(list));
    }
}

const FORMATS: [&str; 8] = [
    "csv",
    "csv:key=2,op=1",
    "csv:key=lbn,op=op,read=28,write=2a",
    "csv:key=1,size=2,block=4096",
    "u32",
    "u64:writes=0.5",
    "lines",
    "lines:writes=1",
];

/// A trace's format and its bytes, perhaps compressed.
pub fn trace(format: u8, bytes: &[u8]) {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::temp_dir().join(format!("timberline-fuzz-{}.trace", std::process::id()))
    });
    let format = TraceFormat::parse(FORMATS[usize::from(format) % FORMATS.len()]).unwrap();
    fs::write(&*FILE, bytes).unwrap();
    let Some(trace) = one_line(Trace::open(&FILE, &format)) else {
        return;
    };
    assert!(trace.len() > 0 && trace.writes() <= trace.len());
    assert!(trace.keys().is_sorted_by(|one, two| one < two));
    for split in [Split::RoundRobin, Split::Contiguous] {
        let replayed = (0..3).flat_map(|thread| trace.replay(thread, 3, split));
        let known = |key| trace.keys().binary_search(&key).is_ok();
        let mut count = 0;
        for request in replayed.take(trace.len() + 1) {
            assert!(known(request.key));
            count += 1;
        }
        assert_eq!(count, trace.len(), "{split:?}");
    }
}

/// A machine's files, recorded in a virtual machine, with two of them replaced.
pub fn topology(which: u16, contents: &[u8]) {
    const RECORDED: &str = include_str!("../../crates/tier/tests/topologies/qemu-hmat.tsv");
    static MACHINE: LazyLock<Machine> = LazyLock::new(|| unpack(RECORDED));
    let files = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let files = files.filter_map(|line| line.split_once('\t'));
    let files: Vec<_> = files.filter(|(path, _)| !path.ends_with('/')).collect();
    let mut parts = contents.splitn(2, |&byte| byte == b'|');
    let replaced = [which % 256, which / 256].map(|number| {
        let (path, content) = files[usize::from(number) % files.len()];
        let path = MACHINE.root().join(path);
        let before = fs::read(&path).unwrap_or_else(|_| content.into());
        if let Some(content) = parts.next() {
            fs::write(&path, content).unwrap();
        }
        (path, before)
    });
    if let Some(topology) = one_line(Topology::discover(MACHINE.root())) {
        assert!(!topology.tiers().is_empty());
        let _ = topology.to_string();
    }
    for (path, before) in replaced.into_iter().rev() {
        fs::write(path, before).unwrap();
    }
}
