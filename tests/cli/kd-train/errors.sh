# Each mistake has its sentence and exit code, before the first step and before anything is written.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
t() { kd-train "$@" >out; echo "exit $?"; [ -s out ] && echo something on stdout; }
t
t -c nowhere.json d.st
t -c c.json nowhere.st
t -c c.json
t -c c.json --steps 0 d.st
t -c c.json --setps 5 d.st
t -c c.json --force --resume auto d.st
t -c c.json --reset-ema d.st
t -c c.json --name nowhere/x --steps 1 d.st
t -c c.json --name ./ --steps 1 d.st
t -c c.json -o nowhere/x --steps 1 d.st
t --resume nowhere.safetensors d.st
t --resume d.st --steps 1 d.st
t -c c.json --init d.st --steps 1 d.st
KD_PLUGINS=. t -c c.json --steps 1 --device nosuch d.st
# Sizes and channels, with the command that makes them fit.
config big.json '"input_size": [14, 14]' '"input_size": [28, 20]'
t -q -c big.json --steps 1 d.st
config colour.json '"input_channels": 1' '"input_channels": 3'
t -q -c colour.json --steps 1 d.st
# Labels.
kd-prep -q "$mnist" --size 14 --limit 40 --labels none -o plain.st
t -q -c c.json --steps 1 plain.st
config few.json '"num_classes": 10' '"num_classes": 9'
t -q -c few.json --steps 1 d.st
# A stream that ends too early, an empty one, one that is none.
head -c 5000 d.st | t -q -c c.json --steps 1
: | t -q -c c.json --steps 1
echo hello | t -q -c c.json --steps 1 -
# What a config cannot train.
config mapping.json '"sigma_data": 0.55' '"sigma_data": 0.55, "mapping_cond_dim": 4'
t -q -c mapping.json --steps 1 d.st
cat >unet.json <<'J'
{ "model": { "type": "image_v1", "input_channels": 1, "input_size": [14, 14], "mapping_out": 16, "depths": [1], "channels": [32],
             "self_attn_depths": [false], "CONDITION_dim": 4, "sigma_min": 0.02, "sigma_max": 80,
             "cross_attn_depths": [true], "sigma_sample_density": {"type": "cosine-interpolated"} } }
J
for condition in mapping_cond unet_cond cross_cond; do
    sed "s/CONDITION/$condition/" unet.json >unet_c.json
    t -q -c unet_c.json --steps 1 d.st
done
ls *model* 2>/dev/null
exit 0
