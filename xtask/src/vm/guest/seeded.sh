# Where the pages of placed maps are, when the program has a bug.
section placements figures --records 100k --workloads hs-c --seconds 0.1 --warmup 1 --placements all-fast,all-slow,interleave,timberline
