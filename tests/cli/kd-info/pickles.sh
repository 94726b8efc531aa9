# PyTorch's files: what the good ones hold, and what is wrong with each bad one. Nothing in them runs.
cp "$GOLDEN"/bad/*.pth .
for f in *.pth; do
    kd-info "$f" 2>&1
    echo "  exit $?"
done
cat good_small.pth | kd-info --json -
kd-info "$GOLDEN/guided_tiny.legacy.pt" | sed -n '2,7p'
kd-info -s "$GOLDEN/guided_tiny.zip.pt" | sed -n '2,7p'
kd-info "$GOLDEN/checkpoints/kdiff_train.pth" | sed -n '2,8p;186,192p;$p'
kd-info --config "$GOLDEN/checkpoints/kdiff_train.pth" >config
kd-info --config "$GOLDEN/checkpoints/kdiff_inference.fp16.safetensors" | cmp - config && echo the converter has the same config
[ ! -e pwned ]
