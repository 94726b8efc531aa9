# Demos and evaluations beside training: one that fails or is interrupted costs no steps, and is made when the run goes on from its step.
# timeout: 600
. $ROOT/tests/cli/kd-train/setup.bash
colour=('"input_channels": 1' '"input_channels": 3' '"input_size": [14, 14]' '"input_size": [16, 16]' ', "num_classes": 10' '')
config c.json "${colour[@]}"
kd-prep -q --no-history "$mnist" --size 16 --channels 3 --labels none --limit 20 -o d.st
kd-init -q --no-history --from "$GOLDEN/clip_small.pt" --activation quick_gelu -o clip.st
kd-fid -q --no-history --features clip.st --write-ref ref --keep-features d.st
t() { kd-train -q --no-history -b 4 -o /dev/null "$@"; echo "exit $?"; }
eval=(--eval-every 2 --eval-n 8 --eval-ref ref --features clip.st)
t -c c.json d.st --name whole --steps 4 "${eval[@]}" --demo-every 2 --demo-n 4
# There is no room for its images: the step is saved all the same, and scored the next time.
TMPDIR=/nonexistent t -c c.json d.st --name x --steps 4 "${eval[@]}" --demo-every 2 --demo-n 4
ls x*
t d.st --name x --steps 4 --resume auto "${eval[@]}" --demo-every 2 --demo-n 4
scores() { cut -d , -f 1,3- "$1"; }
same <(scores whole_metrics.csv) <(scores x_metrics.csv) | cut -d ' ' -f 1
same <(steps_of whole_log.jsonl) <(steps_of x_log.jsonl) | cut -d ' ' -f 1
same whole_00000004.safetensors x_00000004.safetensors
# What is missing at the last step is made, once.
rm x_demo_00000004.png
cp x_log.jsonl log
sed -i '$d' x_metrics.csv
t d.st --name x --steps 4 --resume auto "${eval[@]}" --demo-every 2 --demo-n 4
same whole_demo_00000004.png x_demo_00000004.png
same <(scores whole_metrics.csv) <(scores x_metrics.csv) | cut -d ' ' -f 1
same log x_log.jsonl
touch -d 2001-01-01 x_demo_00000004.png x_metrics.csv
t d.st --name x --steps 4 --resume auto "${eval[@]}" --demo-every 2 --demo-n 4
find . -newer c.json -name 'x_demo*4.png' -o -newer c.json -name x_metrics.csv
# Ctrl-C while it draws: what would take minutes ends at once, and the step is saved.
for what in --demo-every=2 --eval-every=2; do
    for signal in INT TERM; do
        rm -f y*
        kd-train --no-history -c c.json d.st -b 4 --name y --steps 4 $what --demo-n 4096 --eval-n 100000 --eval-ref ref --features clip.st \
            --eval-every 1000 $what -o /dev/null 2>err &
        until [ "$(cat y_log.jsonl 2>/dev/null | wc -l)" = 2 ]; do sleep 0.02; done
        sleep 0.3
        kill -$signal $!
        wait $!
        echo "exit $?"
        tail -n 2 err
        ls y*
    done
done
t d.st --name y --steps 4 --resume auto --demo-every 2 --demo-n 4
ls y_demo*
same whole_00000004.safetensors y_00000004.safetensors
