# 20 steps, and 10 + 10, end in the same bytes: with dropout, augmentation, classes, accumulation, other threads.
. $ROOT/tests/cli/kd-train/setup.bash
digits 100
config plain.json
config all.json "${everything[@]}"
config sgd.json '"type": "adamw"' '"type": "sgd", "momentum": 0.9' '"lr": 3e-3' '"lr": 0.1'
train() { kd-train -q --no-history -b 8 "$@" d.st; }
for c in plain all sgd; do
    train -c $c.json --steps 20 --accum 2 --seed 7 --name $c-whole --threads 1 >$c-whole.st
    train -c $c.json --steps 10 --accum 2 --seed 7 --name $c-half --threads 2 >/dev/null
    train --steps 20 --resume auto --name $c-half --threads 3 >$c-half.st
    same $c-whole_00000020.safetensors $c-half_00000020.safetensors
    same $c-whole.st $c-half.st
    same <(steps_of $c-whole_log.jsonl) <(steps_of $c-half_log.jsonl) | sed 's/ .*//'
done
cmp -s plain-whole.st all-whole.st && echo dropout and augmentation change nothing

# Saving, demos and recomputation leave training untouched.
train -c all.json --steps 20 --accum 2 --seed 7 --name often --save-every 3 --demo-every 10 --demo-n 5 --checkpointing >/dev/null
same all-whole_00000020.safetensors often_00000020.safetensors
ls often_demo*

# From a named file, into another name; the earlier run stays.
train --resume often_00000009.safetensors --name other --steps 20 -o /dev/null
same all-whole_00000020.safetensors other_00000020.safetensors

# Already there.
kd-train -q --no-history --resume auto --name other --steps 20 d.st >again.st
same all-whole.st again.st
