#!/bin/bash
# Every sampler, guidance and start: 37 images are the same bytes whatever the batch and the threads; log-likelihoods too. Run in an
# empty folder, with the tools on PATH and ROOT the repository; WORD: only cases with it in their name or options.
#   mkdir /tmp/s && cd /tmp/s && ROOT=~/kd PATH=~/kd/build:$PATH bash ~/kd/tests/slow/seeds.sh [WORD]
set -u
word=${1-} bad=0
golden=$ROOT/tests/golden/v2_neighborhood_k7.weights.safetensors digits=$ROOT/tests/golden/digits_run/digits.fp16.safetensors

same() # NAME COMMAND...: with any --batch and --threads
{
    local name=$1 threads batch
    case "$*" in *"$word"*) ;; *) return ;; esac
    shift
    if ! "$@" >want; then echo "$name: failed"; bad=1; return; fi
    for threads in 1 2 8; do
        for batch in 1 3 16 64; do
            "$@" --batch $batch --threads $threads | cmp -s - want && continue
            echo "$name: threads $threads, batch $batch: other bytes"
            bad=1
        done
    done
    echo "$name: done"
}
sample() { kd-sample -q --no-history --seed 5 "${@:2}" "$1"; }
. "$ROOT/tests/cli/kd-sample/samplers.bash"
for model in "$golden" "$digits"; do
    for sampler in $(kd-sample --list | cut -d ' ' -f 1); do
        same "$(basename "$model" .safetensors) $sampler" sample "$model" -n 37 --sampler "$sampler" $(options_of "$sampler")
    done
done

sample "$golden" -n 37 --steps 2 >pictures.st
sample "$golden" -n 1 --steps 1 --seed 6 >mask.st
guided() { same "guided $*" sample "$golden" -n 37 --steps 3 "$@"; }
free() { same "adaptive $*" sample "$golden" -n 37 --sampler dpm_adaptive --rtol 1 --atol 1 "$@"; }
guided --cfg 2
guided --cfg 0
guided --cfg 3 --cfg-interval 0.05,20 --sampler heun
guided --cfg 2 --guide "$digits" --sampler dpmpp_2m_sde
guided --threshold static
guided --cfg 8 --threshold dynamic --percentile 90 --sampler dpmpp_sde
guided --class random
guided --class 3,1
guided --trajectory --sampler dpm_2
guided --from pictures.st --sigma 2 --sampler euler_ancestral
guided --from pictures.st --mask mask.st
guided --from pictures.st --invert --sampler heun
same "interpolated" sample "$golden" --interpolate 3,4,37 --steps 3
guided --seeds 3,5-6 -n 13
free --cfg 2 --eta 1
free --cfg 3 --cfg-interval 0.05,20
free --from pictures.st --mask mask.st
free --trajectory
for model in "$golden" "$digits"; do
    same "$(basename "$model" .safetensors) loglik" kd-loglik -q --no-history --rtol 1e-1 --atol 1e-1 -n 37 --probes 2 "$model" pictures.st
done
exit $bad
