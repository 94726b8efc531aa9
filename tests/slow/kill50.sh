#!/bin/bash
# Kills a training run N times (default 50) with kill -9 at random moments, resuming each time, and compares its end with a
# run that was left alone. Run in an empty folder, with the tools on PATH and ROOT the repository:
#   mkdir /tmp/k && cd /tmp/k && ROOT=~/kd PATH=~/kd/build:$PATH bash ~/kd/tests/slow/kill50.sh
set -u
kills=${1:-50} hurt=0
. "$ROOT/tests/cli/kd-train/setup.bash"
digits 100
config c.json "${everything[@]}"
train=(kd-train -q --no-history -b 4 --save-every 5 --keep 3 --name run --resume auto -c c.json d.st -o /dev/null)
RANDOM=1

for ((i = 0; i < kills; i++)); do
    "${train[@]}" 2>/dev/null &
    # From before the first file is open to well past some checkpoints.
    sleep "$(printf '0.%03d' $((RANDOM % 700)))"
    if kill -9 $! 2>/dev/null; then hurt=$((hurt + 1)); fi
    wait $! 2>/dev/null
done
[ $hurt -eq "$kills" ] || echo "only $hurt of $kills kills met a living run"

# Where the last one stood, and on for some steps.
last=$(ls run_*.safetensors 2>/dev/null | tail -n 1)
last=${last#run_} last=${last%.safetensors}
end=$((10#${last:-0} + 12))
"${train[@]}" --steps $end || echo "resuming failed"
kd-train -q --no-history -b 4 --save-every 1000000 --name whole -c c.json d.st --steps $end -o /dev/null
file=$(printf '%08d.safetensors' $end)
cmp "run_$file" "whole_$file" && echo "the same after $kills kills"
cmp <(steps_of run_log.jsonl) <(steps_of whole_log.jsonl) && echo "and the log"
ls | grep -c '^run_[0-9]'
ls -A | grep '^\.'
exit 0
