# What a machine with three tiers is asked; the checks are the host's.
section kernel uname -r
section tiers timberline tiers --json
section check timberline tiers --check --json
