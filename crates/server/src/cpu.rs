//! The processor's time that the process has used.

/// Seconds in its own code, and in the kernel. Zeros where there is no `/proc`.
pub(crate) fn used_seconds() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    used_ticks(&stat).map(|it| it as f64 / ticks)
}

/// `utime` and `stime` of proc_pid_stat(5). The second field is the program's name in parentheses,
/// in which anything can be.
fn used_ticks(stat: &str) -> [u64; 2] {
    let behind = stat.rsplit_once(')').map_or("", |it| it.1);
    let mut fields = behind.split_whitespace().skip(11);
    [(); 2].map(|()| fields.next().and_then(|it| it.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b) 3) S 1 7 7 0 -1 4194304 95 0 0 0 12 34 0 0 20 0 1 0 8 9 10";
        assert_eq!(used_ticks(stat), [12, 34]);
        assert_eq!(used_ticks(""), [0, 0]);
    }
}
