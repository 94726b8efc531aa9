# k-diffusion's training checkpoint: the converter's files byte for byte, either weights, and a checkpoint that training goes on from.
pth=$GOLDEN/checkpoints/kdiff_train.pth
for type in fp32 fp16 bf16; do
    kd-init --from "$pth" --to kdiff --dtype $type | cmp - "$GOLDEN/checkpoints/kdiff_inference.$type.safetensors" && echo $type
done
kd-init --from "$pth" --to kdiff | cmp - "$GOLDEN/checkpoints/kdiff_inference.fp16.safetensors" && echo fp16 is what the converter takes
kd-init --from "$pth" --weights ema --no-history -o ema.safetensors
kd-init --from "$pth" --weights raw --no-history -o raw.safetensors
kd-init --from "$pth" --no-history -o run.safetensors
kd-info run.safetensors | sed -n '2,16p'
kd-init --from run.safetensors --to kdiff --dtype fp32 | cmp - "$GOLDEN/checkpoints/kdiff_inference.fp32.safetensors" &&
    echo the average
for weights in ema raw; do
    kd-init --from run.safetensors --weights $weights --to kdiff | cmp - <(kd-init --from $weights.safetensors --to kdiff) && echo $weights
done
kd-init --from - --no-history -q <"$pth" | cmp - run.safetensors && echo from stdin
kd-init --from "$pth" --to checkpoint --seed 5 --batch 4 -q | kd-info - | grep -E 'kd_(seed|seen|batch)'
kd-init "$GOLDEN/v2_global.config.json" --to kdiff | kd-info - | sed -n '2,5p'

try() { kd-init "$@" >out; echo "$? $(wc -c <out)"; }
try --from "$pth" --to checkpoint --weights ema
try --from "$pth" --to checkpoint --dtype fp16
try --from "$pth" --weights raw --batch 3
try --from ema.safetensors --to checkpoint
try --from "$GOLDEN/guided_tiny.legacy.pt" --config "$GOLDEN/v2_global.config.json"
try --from "$GOLDEN/bad/good_small.pth"
for bad in "$GOLDEN"/bad/[!g]*.pth; do try --from "$bad"; done
[ ! -e pwned ]
