# A kernel that knows one tier, whatever firmware says, and no DAMON.
no_damon() {
    if timberline bench --native --quiet --records 1000 --html /tmp/bench.html --kernel-tiering damon; then
        return 1
    else
        echo "status $?"
    fi
}
section kernel uname -r
section before tiering
section tiers timberline tiers --json
section placements figures --records 100k --workloads hs-c --seconds 0.1 --warmup 1 --placements all-fast,all-slow,timberline
section refused no_damon
section after tiering
