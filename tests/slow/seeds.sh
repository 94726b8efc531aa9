#!/bin/bash
# Every sampler: 37 images are the same bytes whatever the batch and the threads. Run in an empty folder, with the tools on PATH and
# ROOT the repository:
#   mkdir /tmp/s && cd /tmp/s && ROOT=~/kd PATH=~/kd/build:$PATH bash ~/kd/tests/slow/seeds.sh
set -u
bad=0
for model in "$ROOT"/tests/golden/{v2_neighborhood_k7.weights,digits_run/digits.fp16}.safetensors; do
    for sampler in $(kd-sample --list | cut -d ' ' -f 1); do
        sample() { kd-sample -q --no-history --seed 5 -n 37 --steps 3 --s-churn 2 --rtol 1 --atol 1 --sampler "$sampler" "$@" "$model"; }
        sample >want
        for threads in 1 2 8; do
            for batch in 1 3 16 64; do
                sample --batch $batch --threads $threads | cmp -s - want && continue
                echo "$(basename "$model") $sampler: threads $threads, batch $batch: other bytes"
                bad=1
            done
        done
        echo "$(basename "$model") $sampler: done"
    done
done
exit $bad
