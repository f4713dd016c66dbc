#!/bin/busybox sh
# The guest's first process: mounts what programs expect, loads modules, runs what is to be checked, and ends the machine.
# All it says goes to the serial line, in sections that the host reads:
#   === NAME
#   what the command printed
#   === end NAME STATUS
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /tmp
echo 1 > /proc/sys/kernel/printk

section() {
    section_name=$1
    shift
    echo "=== $section_name"
    "$@" 2>&1
    echo "=== end $section_name $?"
}

# The order is that of their names.
load_modules() {
    for module in /modules/*; do
        [ -e "$module" ] || continue
        case $module in
        *.xz) xzcat "$module" > /tmp/module.ko ;;
        *) cp "$module" /tmp/module.ko ;;
        esac
        insmod /tmp/module.ko || return
    done
    rm -f /tmp/module.ko
}

section modules load_modules
. /run.sh
echo "=== done"
reboot -f
