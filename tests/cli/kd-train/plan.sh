# --plan: parameters, work and memory on stdout, and nothing else happens. The peak of the run is within 10 %.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
kd-train -q -c c.json --plan </dev/null | sed -E 's/[0-9]+\.[0-9]+/X/; s/ +/ /g'
kd-train -q -c c.json --plan d.st | tail -n 1 | sed -E 's/[0-9]+\.[0-9]+/X/; s/ +/ /g'
kd-train -q -c c.json --plan --demo-every 5 </dev/null | sed -n 's/\( or\|drawing images\) .*/\1/p'
ls *model* 2>/dev/null
# right CONFIG BATCH OPTION...: is what is planned what it takes?
right()
{
    local config=$1 batch=$2 planned pid now
    peak=0
    shift 2
    planned=$(kd-train -q -c "$config" -b "$batch" --plan "$@" d.st | sed -n 's/^memory at its peak *\([0-9.]*\) MiB/\1/p')
    kd-train -q -c "$config" -b "$batch" --steps 3 "$@" d.st -o /dev/null >out &
    pid=$!
    while now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null) && [ "$now" ]; do peak=$now; sleep 0.01; done
    wait $pid
    # Sanitizers take memory of their own.
    awk -v p="$planned" -v m=$((peak / 1024)) -v san="$BUILD" 'BEGIN {
        ok = m < 1.1 * p && m > 0.9 * p || san ~ /-san$/
        print ok ? "right" : "planned " p " MiB, took " m }'
}
config big.json '"widths": [32]' '"widths": [128]' '"d_ffs": [64]' '"d_ffs": [384]'
right big.json 48 --force
right big.json 48 --force --checkpointing
right big.json 48 --force --accum 2
right big.json 48 --force --checkpointing --demo-every 2 --demo-n 48
# Mostly weights, which are read first.
config wide.json '"widths": [32]' '"widths": [640]' '"d_ffs": [64]' '"d_ffs": [2560]'
kd-train -q -c wide.json -b 2 --steps 1 --name wide d.st -o wide.st
right wide.json 2 --force --init wide.st
started=$peak
right wide.json 2 --name wide --resume auto
[ "${BUILD%-san}" != "$BUILD" ] || [ $((10 * peak)) -lt $((11 * started)) ] || echo "resuming takes $peak kB, starting $started"
