//! Tells ThreadSanitizer what the standard library's locks order: `std_locks.c` says why, and how.
//!
//! Invariant: where a function is not found, nothing is linked, and the command says which one; a
//! check with false positives would be worthless.

use std::path::Path;
use std::process::Command;

use super::toolchain::Toolchain;
use crate::exec;

/// What `std_locks.c` calls a function, and parts of its symbol in this order, the last one at its
/// end.
const FUNCTIONS: [(&str, &[&str]); 7] = [
    ("MUTEX_LOCK", &["5mutex5futex", "5Mutex14lock_contended"]),
    ("RWLOCK_READ", &["6rwlock5futex", "6RwLock14read_contended"]),
    (
        "RWLOCK_WRITE",
        &["6rwlock5futex", "6RwLock15write_contended"],
    ),
    ("CONDVAR_WAIT", &["7condvar5futex", "7Condvar4wait"]),
    (
        "CONDVAR_WAIT_TIMEOUT",
        &["7condvar5futex", "7Condvar12wait_timeout"],
    ),
    ("ONCE_CALL", &["4once5futex", "4Once4call"]),
    (
        "SCOPE_DECREMENT",
        &["6scoped", "9ScopeData29decrement_num_running_threads"],
    ),
];

/// Compiles the functions, and returns the compiler flags that put them in place. An error says
/// what is missing.
pub fn flags(root: &Path, toolchain: &Toolchain) -> Result<String, String> {
    let is_shared_std = |name: &str| name.starts_with("libstd-") && name.ends_with(".so");
    let library = toolchain
        .library(is_shared_std)
        .ok_or("the toolchain has no shared standard library to look up names in")?;
    let symbols = output(
        Command::new("nm")
            .arg("-D")
            .arg("--defined-only")
            .arg(library),
    )?;
    let object = exec::target_dir(root).join("std_locks.o");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-c", "-o"])
        .arg(&object)
        .arg(root.join("xtask/src/sanitize/std_locks.c"));
    let mut flags = format!(
        "-Clink-arg={} -Clink-arg=-Wl,--wrap=__tsan_atomic64_fetch_sub",
        object.display()
    );
    for (name, parts) in FUNCTIONS {
        let symbol = find(&symbols, parts)
            .ok_or_else(|| format!("this standard library has no function for {name}"))?;
        compiler.arg(format!("-D{name}={symbol}"));
        flags += &format!(" -Clink-arg=-Wl,--wrap={symbol}");
    }
    output(&mut compiler)?;
    Ok(flags)
}

fn find<'a>(symbols: &'a str, parts: &[&str]) -> Option<&'a str> {
    let last = parts.last()?;
    symbols
        .split_whitespace()
        .find(|word| word.ends_with(last) && parts.iter().all(|part| word.contains(part)))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(out) if out.status.success() => Ok(String::from_utf8_lossy(&out.stdout).into()),
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stderr);
            Err(format!(
                "`{name}` failed: {}",
                said.lines().next().unwrap_or_default()
            ))
        }
        Err(_) => Err(format!("`{name}` is not installed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_the_parts_of_its_symbol() {
        let symbols = "00 T _R3std5mutex5futexNtB2_5Mutex14lock_contended\n\
                       01 T _R3std5mutex5futexNtB2_5Mutex14lock_contended_not\n";
        let found = find(symbols, FUNCTIONS[0].1);
        assert_eq!(found, Some("_R3std5mutex5futexNtB2_5Mutex14lock_contended"));
        assert_eq!(find(symbols, FUNCTIONS[1].1), None);
    }
}
