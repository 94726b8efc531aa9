# --plan: parameters, work and memory on stdout, and nothing else happens. The peak of the run is within 10 %.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
kd-train -q -c c.json --plan </dev/null | sed -E 's/[0-9]+\.[0-9]+/X/; s/ +/ /g'
kd-train -q -c c.json --plan d.st | tail -n 1 | sed -E 's/[0-9]+\.[0-9]+/X/; s/ +/ /g'
kd-train -q -c c.json --plan --demo-every 5 </dev/null | sed -n 's/\( or\|drawing images\) .*/\1/p'
ls *model* 2>/dev/null
config big.json '"widths": [32]' '"widths": [128]' '"d_ffs": [64]' '"d_ffs": [384]'
for more in "" --checkpointing "--accum 2" "--checkpointing --demo-every 2 --demo-n 48"; do
    planned=$(kd-train -q -c big.json -b 48 --plan $more d.st | sed -n 's/^memory at its peak *\([0-9.]*\) MiB/\1/p')
    kd-train -q -c big.json -b 48 --steps 3 $more --force d.st -o /dev/null >out &
    pid=$! peak=0
    while now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null) && [ "$now" ]; do peak=$now; sleep 0.01; done
    wait $pid
    # Sanitizers take memory of their own.
    awk -v p="$planned" -v m=$((peak / 1024)) -v san="$BUILD" 'BEGIN {
        ok = m < 1.1 * p && m > 0.9 * p || san ~ /-san$/
        print ok ? "right" : "planned " p " MiB, took " m }'
done
