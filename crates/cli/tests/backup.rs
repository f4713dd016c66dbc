//! `timberline backup` and `timberline restore` of what is no store, no backup, or in use.

mod command;
mod scratch;
mod serving;

use std::path::Path;
use std::process::Command;

use command::{refused, stderr, timberline};
use scratch::Scratch;
use serving::Serving;

fn copy(command: &str, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Command {
    let mut copy = timberline();
    copy.arg(command).arg(from.as_ref()).arg(to.as_ref());
    copy
}

fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A store that has a key, and that was closed.
fn made(folder: &Path) {
    let mut server = Serving::new(folder);
    server.ask("SET key value\r\nSHUTDOWN\r\n");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn what_is_no_folder_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.write("file", b"mine");
    let (none, to) = (scratch.path("none"), scratch.path("to"));
    for command in ["backup", "restore"] {
        let line = refused(copy(command, &none, &to));
        assert!(line.contains("none: there is no such folder; "), "{line}");
        let line = refused(copy(command, &file, &to));
        assert!(line.contains("file: this is no folder; "), "{line}");
    }
    for address in ["localhost:6379", "127.0.0.1:99999", "127.0.0.1"] {
        let line = refused(copy("backup", address, &to));
        let named = format!("{address}: there is no such folder; a server is named by its IP");
        assert!(line.contains(&named), "{line}");
    }
    assert!(!to.exists());

    let store = scratch.path("store");
    made(&store);
    for command in ["backup", "restore"] {
        let line = refused(copy(command, &store, &file));
        assert!(
            line.contains("file: this is no folder; give a new or"),
            "{line}"
        );
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_store_that_is_open_is_not_restored_from() {
    let scratch = Scratch::new();
    let [store, to] = ["store", "to"].map(|name| scratch.path(name));
    let server = Serving::new(&store);
    let line = refused(copy("restore", &store, &to));
    assert!(line.contains("open elsewhere"), "{line}");
    assert!(line.contains("restore from a backup of it"), "{line}");
    assert!(!to.exists());
    drop(server);
}

fn set_len(file: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(file);
    file.unwrap().set_len(bytes).unwrap();
}

/// Where a file of a backup was cut, nothing is made; where the disk fails, nothing stays.
#[test]
fn a_restore_that_fails_leaves_nothing() {
    let scratch = Scratch::new();
    let [store, backup, to] = ["store", "backup", "to"].map(|name| scratch.path(name));
    made(&store);
    succeeds(copy("backup", &store, &backup));

    let segment = backup.join("000000.segment");
    let bytes = std::fs::metadata(&segment).unwrap().len();
    for cut in [bytes - 5, 6] {
        set_len(&segment, cut);
        let line = refused(copy("restore", &backup, &to));
        let named = format!("000000.segment: it has {cut} bytes, ");
        assert!(line.contains(&named), "{line}");
        assert!(!to.exists());
    }
    set_len(&segment, bytes);
    let other = backup.join("other.segment");
    std::fs::write(&other, b"").unwrap();
    let line = refused(copy("restore", &backup, &to));
    assert!(line.contains("other.segment: this is no segment"), "{line}");
    std::fs::remove_file(other).unwrap();

    // A limit on the size of files, one block, stands in for a full disk.
    let command = copy("restore", &backup, &to);
    let mut shell = Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
    succeeds(copy("restore", &backup, &to));

    // A store whose file was cut is backed up as it is opened.
    let files = std::fs::read_dir(&store).unwrap();
    let files = files.map(|it| it.unwrap().path());
    let segment = files.filter(|it| it.extension() == segment.extension());
    set_len(&segment.min().unwrap(), bytes - 5);
    succeeds(copy("backup", &store, scratch.path("of cut")));
}

#[test]
fn a_copy_that_was_never_completed_is_named_as_such() {
    let scratch = Scratch::new();
    let [store, to] = ["store", "to"].map(|name| scratch.path(name));
    made(&store);
    std::fs::create_dir(&to).unwrap();
    scratch.write("to/unfinished", b"");
    for command in ["backup", "restore"] {
        let line = refused(copy(command, &store, &to));
        assert!(
            line.contains("to: this copy of a store was never completed"),
            "{line}"
        );
    }
}
