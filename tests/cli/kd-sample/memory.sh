# Samples stream out as frames fill: twenty times as many take no more memory.
. "$ROOT/tests/cli/kd-sample/toy.bash"
export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1
for i in {1..192}; do printf "$(number 0.25)"; done | toy 0.5 3,8,8 toy.st
mkfifo out
peak() # IMAGES BYTES: in KiB, when it waits for a reader that took so many bytes
{
    kd-sample -q -n "$1" --steps 2 --threads 2 toy.st >out &
    exec 3<out
    head -c "$2" <&3 >/dev/null
    sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$!/status
    cat <&3 >/dev/null
    wait $! || echo "exit $?" >&2
    exec 3<&-
}
few=$(peak 1000 100000)
many=$(peak 20000 4300000)
[ "$many" -lt $((few + 1000)) ] && echo constant || echo "1,000 images: $few KiB, 20,000: $many KiB"
