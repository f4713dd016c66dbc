# What a machine with two tiers is asked; the checks are the host's.

# The figures of a run that are checked, one a line, and none of the rest: a serial line is slow.
figures() {
    timberline bench --native --quick --quiet --json /tmp/bench.json --html /tmp/bench.html "$@" > /tmp/bench.txt
    status=$?
    [ $status = 0 ] || cat /tmp/bench.txt
    grep -E '^ *"(placement|promoted|demoted|fast_bytes|slow_bytes|over_budget_bytes|misplaced_pages|lines_slow_per_op)":' /tmp/bench.json
    return $status
}

section kernel uname -r
section tiers timberline tiers --json
section placements figures --records 100k --workloads hs-c --rounds 1 --seconds 0.1 --warmup 1 \
    --placements all-fast,all-slow,interleave,timberline
