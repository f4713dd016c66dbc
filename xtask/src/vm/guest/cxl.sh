# A CXL expander as firmware leaves it: the region is ours to make, and its memory ours to bring online.
region() {
    cd /sys/bus/cxl/devices || return
    for try in 1 2 3 4 5 6 7 8 9 10; do
        endpoint=$(ls -d decoder*/dpa_size 2>/dev/null | head -n 1)
        [ -z "$endpoint" ] || break
        sleep 1
    done
    endpoint=${endpoint%/dpa_size}
    [ -n "$endpoint" ] || { ls; echo "no CXL device answers"; return 1; }
    size=$(cat mem0/ram/size)
    new=$(cat decoder0.0/create_ram_region)
    echo $new > decoder0.0/create_ram_region &&
        echo ram > $endpoint/mode &&
        echo $size > $endpoint/dpa_size &&
        echo 1 > $new/interleave_ways &&
        echo 256 > $new/interleave_granularity &&
        echo $size > $new/size &&
        echo $endpoint > $new/target0 &&
        echo 1 > $new/commit &&
        { [ -e $new/driver ] || echo $new > /sys/bus/cxl/drivers/cxl_region/bind; } || return
    for try in 1 2 3 4 5 6 7 8 9 10; do
        grep -q '^MemTotal.* 0 kB' /sys/devices/system/node/node1/meminfo 2>/dev/null || [ ! -e /sys/devices/system/node/node1 ] || return 0
        sleep 1
    done
    echo "no memory comes from the region"
    return 1
}
section kernel uname -r
section region region
section tiers timberline tiers --json
section placements figures --records 20k --workloads hs-c --seconds 0.1 --warmup 1 --placements all-slow,timberline
