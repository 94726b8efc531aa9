# Weights of networks for features: written as they are, without what is of no use; options that have none.
try() { kd-init --no-history "$@" -o out; echo "exit $?"; }
try --from $GOLDEN/clip_small.pt --activation quick_gelu
kd-info out
mv out state_dict
try --from $GOLDEN/clip_script.pt                    # TorchScript, of OpenAI's kind: the activation is known
kd-info out | head -n 6
try --from $GOLDEN/clip_script.pt --activation gelu
rm -f out
try --from $GOLDEN/dinov2_small.pth
kd-info out | head -n 8
try --from out                                       # it is one already
cp out before
try --from $GOLDEN/clip_small.pt
cmp out before
try --from $GOLDEN/dinov2_small.pth --activation gelu
try --from $GOLDEN/dinov2_small.pth --dtype fp16
try --from $GOLDEN/dinov2_small.pth --to model
try --from $GOLDEN/dinov2_small.pth --seed 1
try --from $GOLDEN/dinov2_small.pth --config $GOLDEN/v2_global.config.json
try --from $GOLDEN/v2_global.weights.safetensors --activation gelu
try $GOLDEN/v2_global.config.json --activation gelu
kd-sample before >/dev/null; echo "exit $?"
