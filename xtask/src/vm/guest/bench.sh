# What other scripts ask a machine with.

# The figures of a run that are checked, one a line, and none of the rest: a serial line is slow.
figures() {
    timberline bench --native --quiet --rounds 1 --json /tmp/bench.json --html /tmp/bench.html "$@" > /tmp/bench.txt
    status=$?
    [ $status = 0 ] || { cat /tmp/bench.txt; dmesg | grep 'Out of memory'; return $status; }
    grep -E '^ *"(placement|promoted|demoted|fast_bytes|slow_bytes|over_budget_bytes|misplaced_pages|pgpromote_success|damon_hot_applied_bytes)":' /tmp/bench.json
}

# What the kernel's tiering is set to, and what it did so far.
tiering() {
    echo "numa_balancing $(cat /proc/sys/kernel/numa_balancing)"
    echo "demotion $(cat /sys/kernel/mm/numa/demotion_enabled)"
    threads=/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds
    [ ! -e $threads ] || echo "damon $(cat $threads)"
    echo "held $(cat /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages)"
    grep -E '^(pgpromote_success|pgmigrate_success) ' /proc/vmstat
}

# Whether a run that is interrupted while the kernel has fast memory for the map only, and its switches set, ends by itself.
interrupted() {
    figures --records 20k --workloads hs-c --seconds 600 --warmup 0 --placements kernel --budget 64M --kernel-tiering "$1" &
    running=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do
        sleep 1
        held=$(cat /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages)
        [ "$held" = 0 ] || break
    done
    echo "held_meanwhile $held"
    killall timberline
    wait $running
    # What an interrupted run ends with.
    [ $? = 130 ]
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
