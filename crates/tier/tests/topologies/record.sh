#!/bin/sh
# Prints this machine's memory topology as a manifest: one `path<TAB>content` a line, newlines
# written as \n, and `path/` for a link to a NUMA node. Needs no root. Runs in busybox too.
# Put a comment on top saying which machine it is.

root=/

line() { # path, then the content on standard input
    printf '%s\t' "$1"
    awk '{ gsub(/\\/, "&&"); gsub(/\t/, " "); printf "%s%s", sep, $0; sep = "\\n" } END { print "" }'
}

file() {
    # Some files exist and refuse to be read.
    if [ -f "$root$1" ] && content=$(cat "$root$1" 2>/dev/null); then
        printf '%s\n' "$content" | line "$1"
    fi
}

part() { # path, pattern of the lines wanted
    [ -r "$root$1" ] && grep -E "$2" "$root$1" | line "$1"
}

cd "$root" || exit 1
node=sys/devices/system/node
for path in $node/online $node/possible sys/devices/system/cpu/online; do
    file "$path"
done
for directory in $node/node[0-9]*; do
    [ -d "$directory" ] || continue
    file "$directory/cpulist"
    file "$directory/distance"
    part "$directory/meminfo" 'Mem(Total|Free|Used):'
    for initiators in "$directory"/access[0-9]*/initiators; do
        [ -d "$initiators" ] || continue
        for path in "$initiators"/*; do
            case ${path##*/} in
                node[0-9]*) printf '%s/\t\n' "$path" ;;
                read_* | write_*) file "$path" ;;
            esac
        done
    done
done
for path in sys/devices/virtual/memory_tiering/memory_tier*/nodelist \
    sys/kernel/mm/transparent_hugepage/enabled \
    sys/kernel/mm/transparent_hugepage/hpage_pmd_size \
    sys/kernel/mm/numa/demotion_enabled \
    proc/sys/kernel/numa_balancing; do
    file "$path"
done
part proc/meminfo '^Mem'
part proc/self/status '^Mems_allowed_list:'
[ -r proc/self/smaps ] && grep -m 1 '^KernelPageSize:' proc/self/smaps | line proc/self/smaps
file proc/self/cgroup
# Every limit on the way from this process's groups to the top.
while IFS=: read -r _ controllers group; do
    case ,$controllers, in
        ,,) mounts="sys/fs/cgroup sys/fs/cgroup/unified" ;;
        *,memory,*) mounts=sys/fs/cgroup/memory ;;
        *) continue ;;
    esac
    for mount in $mounts; do
        directory=$mount${group%/}
        while [ -d "$directory" ]; do
            for name in memory.max memory.current memory.limit_in_bytes memory.usage_in_bytes; do
                file "$directory/$name"
            done
            [ "$directory" = "$mount" ] && break
            directory=${directory%/*}
        done
    done
done <proc/self/cgroup
