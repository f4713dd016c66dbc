# What other scripts ask a machine with.

# The figures of a run that are checked, one a line, and none of the rest: a serial line is slow.
figures() {
    timberline bench --native --quiet --rounds 1 --json /tmp/bench.json --html /tmp/bench.html "$@" > /tmp/bench.txt
    status=$?
    [ $status = 0 ] || { cat /tmp/bench.txt; dmesg | grep 'Out of memory'; return $status; }
    grep -E '^ *"(placement|promoted|demoted|fast_bytes|slow_bytes|over_budget_bytes|misplaced_pages)":' /tmp/bench.json
}

# What the kernel's tiering is set to, and what it did so far.
tiering() {
    echo "numa_balancing $(cat /proc/sys/kernel/numa_balancing)"
    echo "demotion $(cat /sys/kernel/mm/numa/demotion_enabled)"
    threads=/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
    [ ! -e $threads ] || echo "damon $(cat $threads)"
    grep -E '^(pgpromote_success|pgmigrate_success) ' /proc/vmstat
}

# Two settings that would keep the kernel from doing anything to so small a map within seconds: what it keeps free of each
# node is more than the map, and a thread has run for seconds before NUMA balancing looks at its pages.
hasten() {
    echo 1024 > /proc/sys/vm/min_free_kbytes
    mkdir -p /sys/kernel/debug
    mount -t debugfs debugfs /sys/kernel/debug
    echo 50 > /sys/kernel/debug/sched/numa_balancing/scan_delay_ms
    echo 50 > /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms
}
