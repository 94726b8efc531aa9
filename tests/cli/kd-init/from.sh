# Weights of other files: kept in fp32, once rounded they stay, stdin works.
file=$GOLDEN/checkpoints/kdiff_inference
kd-init --from "$file.fp32.safetensors" --no-history -o full.safetensors
kd-init --from full.safetensors --dtype fp16 --no-history -o half.safetensors
kd-init --from "$file.fp16.safetensors" --dtype fp16 --no-history | cmp - half.safetensors && echo fp16 as k-diffusion rounds
kd-init --from "$file.fp32.safetensors" --dtype bf16 --no-history >brain.safetensors
kd-init --from - --dtype bf16 --no-history <"$file.bf16.safetensors" | cmp - brain.safetensors && echo bf16 too
kd-init --from half.safetensors --no-history | kd-init --from - --dtype fp16 --no-history | cmp - half.safetensors && echo and back
kd-init --from full.safetensors --weights raw --no-history | cmp - full.safetensors && echo a model has one kind of weights
kd-init --from "$GOLDEN/v2_global.weights.safetensors" --config "$GOLDEN/v2_global.config.json" --no-history |
    kd-init --from - --no-history -o - | wc -c
