# Evaluation while training: the log, the table as k-diffusion writes it, the same after resuming; what is missing is said before
# the first step.
# timeout: 900
. $ROOT/tests/cli/kd-train/setup.bash
digits 20
config c.json
kd-prep -q --no-history "$mnist" --size 14 --limit 3 -o three.st
kd-fid -q --no-history --features random --write-ref ref --keep-features three.st
kd-fid -q --no-history --features random --write-ref stats three.st
t() { kd-train -q --no-history -b 4 --features random --eval-n 3 -o /dev/null "$@"; echo "exit $?"; }
t -c c.json d.st --name whole --steps 4 --eval-every 2 --eval-ref ref
t -c c.json d.st --name half --steps 2 --eval-every 2 --eval-ref ref
t d.st --name half --steps 4 --eval-every 2 --eval-ref ref --resume auto
clock() { sed -E 's/^([0-9]+),[0-9.]+/\1,TIME/' "$1"; }
clock whole_metrics.csv | cmp - <(clock half_metrics.csv) && clock half_metrics.csv | cut -d , -f 1,2
head -n 1 half_metrics.csv
same whole_00000004.safetensors half_00000004.safetensors
grep -c '"scores": {"fid": .*"kid": .*}, "random features": true}' half_log.jsonl
# The table has the columns of other metrics.
t d.st --name half --steps 6 --eval-every 2 --eval-ref ref --resume auto --metrics fid
kd-train -q --resume whole_00000004.safetensors --eval-only --eval-ref ref --features random --eval-n 3 --metrics fid >scores
grep -c 'random features' scores
awk -F '[ ,]+' 'NR == FNR { last = $4 } NR != FNR && /^fid/ { exit !(($2 - last) ^ 2 < 1e-6 * last ^ 2) }' whole_metrics.csv scores
echo "evaluated alone: $?"
t -c c.json d.st --name x --steps 2 --eval-every 2 --eval-ref stats --metrics fid,kid
t -c c.json d.st --name x --steps 2 --eval-every 2 --eval-ref nowhere
t -c c.json d.st --name x --steps 2 --eval-ref ref
t -c c.json d.st --name x --steps 2 --eval-every 2
t -c c.json d.st --name x --steps 2 --eval-only --eval-ref ref
ls x* 2>/dev/null
