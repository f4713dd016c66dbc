# Whether DAMON promotes what is hot, and is switched off afterwards.
section kernel uname -r
hasten
section before tiering
section damon figures --records 300k --workloads hs-c --seconds 8 --warmup 0 --placements kernel --kernel-tiering damon --budget 64M
section after tiering
section interrupted interrupted damon
section after-interrupt tiering
