# --each takes little memory, whatever the size of the file: here 61 MB.
# The last picture goes to a pipe that nobody reads yet: there kd-grid waits, and its greatest memory can be looked at.
export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=1
printf '\0\0\10\3\0\0\0\226\0\0\2\200\0\0\2\200' >d                    # 150 images of 640 x 640
head -c 61440000 /dev/zero >>d
kd-prep -q --labels none d -o d.st
rm d
mkfifo p149.png
kd-grid d.st --each 'p%d.png' &
until [ -e p148.png ] || ! kill -0 $!; do sleep 0.1; done
peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$!/status)
if grep -q __asan_init "$(command -v kd-grid)"; then most=80000; else most=20000; fi
[ "$peak" -lt $most ] || echo "peak of $peak KiB"
cat p149.png | head -c 4 | tail -c 3
echo
wait
ls | wc -l
