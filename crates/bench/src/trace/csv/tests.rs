//! Well-formed and malformed tables.

use crate::trace::tests::sample::Sample;
use crate::trace::{Split, Trace, TraceError, TraceFormat};
use crate::workload::Op;

fn open(format: &str, text: &str) -> Result<Trace, TraceError> {
    let sample = Sample::new("table.csv", text.as_bytes());
    Trace::open(sample.path(), &TraceFormat::parse(format).unwrap())
}

/// The requests, as `r` or `w` and the key.
fn requests(format: &str, text: &str) -> Vec<String> {
    let trace = open(format, text).unwrap();
    let all = trace.replay(0, 1, Split::RoundRobin);
    all.map(|request| {
        format!(
            "{}{}",
            if request.op == Op::Update { 'w' } else { 'r' },
            request.key
        )
    })
    .collect()
}

const BLOCKS: &str = "version,time,op,size,lbn\n1,5,2a,512,42\n1,6,28,1536,40\n1,7,2A,0,42\n";

#[test]
fn a_block_trace_is_recognised() {
    assert_eq!(requests("csv", BLOCKS), ["w42", "r40", "w42"]);
    assert_eq!(open("csv", BLOCKS).unwrap().keys(), [40, 42]);
}

#[test]
fn columns_and_values_can_be_named() {
    assert_eq!(requests("csv:key=TIME", BLOCKS), ["w5", "r6", "w7"]);
    assert_eq!(
        requests("csv:key=2,op=version,write=1", BLOCKS),
        ["w5", "w6", "w7"]
    );
    let other = "who,what\n0x10,look\n17,peek\n18,change\n";
    let format = "csv:key=who,op=what,read=look,read=peek,write=change";
    assert_eq!(requests(format, other), ["r16", "r17", "w18"]);
}

#[test]
fn a_size_touches_every_block() {
    assert_eq!(
        requests("csv:size=size", BLOCKS),
        ["w42", "r40", "r41", "r42", "w42"]
    );
    assert_eq!(
        requests("csv:size=size,block=1024", BLOCKS),
        ["w42", "r40", "r41", "w42"]
    );
}

#[test]
fn without_names_columns_have_numbers() {
    assert_eq!(requests("csv:key=2,op=1", "r,7\nw,8\n"), ["r7", "w8"]);
    assert_eq!(requests("csv:key=1", "7\n8\n"), ["r7", "r8"]);
}

/// As published: no header line, offsets and lengths in bytes, times in µs. The second request
/// begins within block 2 and ends within block 3; each device has its own keys.
const ALIBABA: &str = "0,R,4096,4096,1577808000000046\n\
                       0,W,10240,4096,1577808000000050\n\
                       3,W,4096,1,1577808000000049\n\
                       3,R,0,8192,1577808001000046\n";

#[test]
fn alibabas_block_traces_are_read_as_published() {
    let third = |block: u64| (3u64 << 44) + block;
    let expected = [
        "r1".to_string(),
        "w2".to_string(),
        "w3".to_string(),
        format!("w{}", third(1)),
        format!("r{}", third(0)),
        format!("r{}", third(1)),
    ];
    assert_eq!(requests("alibaba", ALIBABA), expected);
    let trace = open("alibaba", ALIBABA).unwrap();
    let mut timed = trace.timed(0, 1, 1.0).unwrap();
    let dues = (0..6).map(|_| {
        let due = timed.due().as_micros();
        timed.next();
        due
    });
    assert!(dues.eq([0, 4, 4, 4, 1_000_000, 1_000_000]));
    // With a header line and another block size.
    let named = format!("device_id,opcode,offset,length,timestamp\n{ALIBABA}");
    assert_eq!(requests("alibaba", &named), expected);
    assert_eq!(
        requests("alibaba:block=8192", "0,R,4096,4096,1\n0,R,4096,4097,2\n"),
        ["r0", "r0", "r1"]
    );
}

#[test]
fn times_are_read_in_their_unit() {
    let span = |format: &str, times: [&str; 2]| {
        let text = format!("key,when\n1,{}\n1,{}\n", times[0], times[1]);
        open(format, &text).unwrap().span_ns()
    };
    assert_eq!(span("csv:time=when,unit=ns", ["5", "7"]), Some(2));
    assert_eq!(span("csv:time=when,unit=us", ["5", "7"]), Some(2_000));
    assert_eq!(span("csv:time=when,unit=ms", ["0x5", "7"]), Some(2_000_000));
    let seconds = ["1577808000.25", "1577808001.5"];
    assert_eq!(span("csv:time=when,unit=s", seconds), Some(1_250_000_000));
    assert_eq!(
        span("csv:time=when", ["5", "7"]),
        None,
        "of an unknown unit"
    );
    // A column with a default name needs only its unit.
    let text = BLOCKS.replace("1,7,", "1,9,");
    assert_eq!(open("csv:unit=us", &text).unwrap().span_ns(), Some(4_000));
}

#[test]
fn without_operations_all_read_unless_told_otherwise() {
    assert_eq!(requests("csv", "lba\n1\n2\n"), ["r1", "r2"]);
    assert_eq!(requests("csv:writes=1", "lba\n1\n2\n"), ["w1", "w2"]);
}

#[test]
fn quotes_spaces_blank_lines_and_line_ends_do_not_matter() {
    assert_eq!(
        requests("csv", "\"op\", \"lbn\"\r\n\r\n\"r\" , 5\r\nW,6"),
        ["r5", "w6"]
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (format, text, said) in [
        ("csv", "", "table.csv`: holds no request"),
        ("csv", "op,lbn\n", "table.csv`: holds no request"),
        (
            "csv",
            "op,lbn\nr,1\nr,x7\n",
            "line 3: `x7` in column `lbn` is not a whole number below 2^64",
        ),
        (
            "csv",
            "op,lbn\nr,-1\n",
            "line 2: `-1` in column `lbn` is not",
        ),
        (
            "csv",
            "op,lbn\nr,18446744073709551616\n",
            "line 2: `18446744073709551616` in",
        ),
        ("csv", "op,lbn\nr,\n", "line 2: `` in column `lbn`"),
        (
            "csv",
            "op,lbn\n\nr\n",
            "line 3: has 1 columns where the first line has 2",
        ),
        (
            "csv",
            "op,lbn\nr,1,2\n",
            "line 2: has 3 columns where the first line has 2",
        ),
        (
            "csv",
            "op,lbn\n35,1\n",
            "line 2: `35` in column `op` is neither a read (r, read, ",
        ),
        (
            "csv:read=28",
            "op,lbn\nr,1\n",
            "line 2: `r` in column `op` is neither a read (28) nor a write (w, ",
        ),
        (
            "csv:key=lbn",
            "time,op\n1,r\n",
            "line 1: there is no column `lbn`; there are `time`, `op`",
        ),
        (
            "csv:op=kind",
            "op,lbn\nr,1\n",
            "line 1: there is no column `kind`; there are `op`, `lbn`",
        ),
        (
            "csv:size=size",
            "op,lbn\nr,1\n",
            "line 1: there is no column `size`",
        ),
        (
            "csv:key=3",
            "op,lbn\nr,1\n",
            "line 1: there is no column `3`",
        ),
        (
            "csv:key=0",
            "op,lbn\nr,1\n",
            "line 1: there is no column `0`",
        ),
        (
            "csv",
            "1,28,7\n",
            "line 1: no column has a usual name for keys (key, lbn, ",
        ),
        (
            "csv:size=size",
            "lbn,size\n1,4 KiB\n",
            "line 2: `4 KiB` in column `size` is not a whole number",
        ),
        (
            "csv:size=size",
            "lbn,size\n1,99999999\n",
            "line 2: 99999999 bytes at 1 span 195313 blocks of 512",
        ),
        (
            "csv:size=size",
            "lbn,size\n18446744073709551615,1024\n",
            "line 2: 1024 bytes at 18446744073709551615",
        ),
        (
            "csv:unit=us",
            "key,time\n1,5\n1,soon\n",
            "line 3: `soon` in column `time` is not a time from 0 on",
        ),
        (
            "csv:unit=s",
            "key,time\n1,5.x\n",
            "line 2: `5.x` in column `time` is not a time",
        ),
        (
            "csv:unit=s",
            "key,time\n1,99999999999\n",
            "line 2: `99999999999` in column `time` is not a time",
        ),
        (
            "csv:time=when",
            "key,time\n1,5\n",
            "line 1: there is no column `when`",
        ),
        ("alibaba", "0,R,4096\n", "line 1: there is no column `4`"),
        (
            "alibaba",
            "0,X,4096,4096,1\n",
            "line 1: `X` in column `2` is neither a read",
        ),
        (
            "alibaba",
            "1048576,R,4096,4096,1\n",
            "line 1: block 1 of device 1048576 is too large; at most 17592186044415 of device 1048575",
        ),
        (
            "alibaba:block=1",
            "0,R,17592186044416,1,1\n",
            "line 1: block 17592186044416 of device 0 is too large",
        ),
        (
            "alibaba",
            "0,R,4095,18446744073709551615,1\n",
            "line 1: 18446744073709551615 bytes at 4095 span 4503599627370496 blocks of 4096",
        ),
    ] {
        let error = open(format, text).unwrap_err().to_string();
        assert!(error.contains(said), "{format} of {text:?}: {error}");
        assert!(
            error.starts_with("trace `") && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn bytes_that_are_not_text_are_an_error_not_a_panic() {
    let sample = Sample::new("binary.csv", b"op,lbn\nr,\xff\xfe\n");
    let error = Trace::open(sample.path(), &TraceFormat::parse("csv").unwrap()).unwrap_err();
    assert!(error.to_string().contains("line 2: "), "{error}");
}
