//! `stores` runs each store, and says what it can't do.

use std::path::PathBuf;
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let name = format!("timberline-stores-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

fn stores(folder: &PathBuf, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stores"));
    command.arg(folder).args(args).output().unwrap()
}

#[test]
fn every_store_runs() {
    let folder = folder("all");
    let small = "--records 2000 --memory 1024 --slice 0.05 --rounds 1 --in-flight 4";
    let args: Vec<_> = small.split(' ').collect();
    let output = stores(&folder, &args);
    let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{errors}");
    for store in ["timberline", "timberline-threads", "fjall", "redb"] {
        // In four groups of rows, and three figures at least.
        let lines = said.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(store) && words.next().is_some()
        });
        assert!(lines.count() >= 7, "{store}: {said}{errors}");
    }
    assert!(!folder.exists());
}

#[test]
fn bad_input_is_refused() {
    let folder = folder("none");
    for (args, why) in [
        (["--records", "5"], "--records: give at least 1000"),
        (["--slice", "0"], "--slice: give more than 0"),
        (["--memory", "1"], "take at least"),
        (["--stores", "another"], "redb"),
    ] {
        let output = stores(&folder, &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
