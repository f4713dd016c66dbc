# What a machine with two tiers is asked; the checks are the host's.
small="--records 100k --workloads hs-c --seconds 0.1"
section kernel uname -r
section tiers timberline tiers --json
section check timberline tiers --check --json
section placements figures $small --warmup 1 --placements all-fast,all-slow,interleave,timberline
hasten
section before tiering
section autonuma figures --records 100k --workloads hs-c --seconds 3 --warmup 0 --placements kernel --kernel-tiering autonuma --budget 64M
section after tiering
section interrupted interrupted autonuma
section after-interrupt tiering
