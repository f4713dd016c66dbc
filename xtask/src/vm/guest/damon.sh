# Whether DAMON promotes what is hot, and is switched off afterwards.
section kernel uname -r
hasten
section before tiering
section damon figures --records 300k --workloads hs-c --seconds 0.1 --warmup 8 --placements kernel --kernel-tiering damon --budget 64M
section after tiering
