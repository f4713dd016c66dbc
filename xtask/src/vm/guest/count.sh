# One workload on every placement; what is measured of each is an interval of the plugin's, in this order.
# The host sets `plan` and `placements`.

# Zones of the fast node that are kept for others would count as free and could not be used.
echo "0 0 0 0" > /proc/sys/vm/lowmem_reserve_ratio
hasten
section kernel uname -r
section bound figures $plan --placements $placements --kernel-tiering none
for tiering in none autonuma damon; do
    section $tiering figures $plan --placements kernel --kernel-tiering $tiering
done
