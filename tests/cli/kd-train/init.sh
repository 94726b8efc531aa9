# --init starts from a model, --reset-ema from the average; the output is a model that k-diffusion's names fill.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
t() { kd-train -q --no-history -b 4 "$@" d.st; echo "exit $?"; }
t -c c.json --steps 5 --name a -o a.st
# No -c: the model's config. A rate of nearly 0 leaves its weights.
t --init a.st --steps 1 --lr 1e-12 --name b -o b.st
t --init a_00000005.safetensors --steps 1 --lr 1e-12 --name c -o c.st
same b.st c.st
config wide.json '"d_ffs": [64]' '"d_ffs": [48]'
t -c wide.json --init a.st --steps 1 --name d -o d.st
# What only training depends on may be another.
config free.json "${everything[@]}" '"loss_weighting": "soft-min-snr"' '"loss_weighting": "karras"' '"sigma_max": 80' '"sigma_max": 60' \
    '"type": "cosine-interpolated"' '"type": "loguniform"' '"cond_dropout_rate": 0.1' '"cond_dropout_rate": 0.2'
t -c free.json --init a.st --steps 1 --lr 1e-12 --name g -o g.st
same <(kd-info -s b.st | grep weight) <(kd-info -s g.st | grep weight) | cut -d " " -f 1
# The average becomes the weights.
t --resume a_00000005.safetensors --reset-ema --steps 6 --lr 1e-12 --name e -o e.st
kd-train -q --no-history --resume a_00000005.safetensors --steps 6 --lr 1e-12 --name f -o f.st d.st
cmp -s e.st f.st && echo no difference
# History: the data's, then ours.
kd-prep -q "$mnist" --size 14 --limit 40 -o h.st
kd-train -q -c c.json -b 4 --steps 1 --name h h.st -o m.st
grep -ao 'kd-prep -q .* kd-train\|kd-prep -q' m.st | head -n 1 | cut -c 1-10
grep -ao 'kd-train -q -c c.json' m.st
grep -aq 'kd-train -q' h_00000001.safetensors || echo none in the checkpoint
