# Each wrong use says one line and exits 2.
config=$GOLDEN/v2_global.config.json
model=$GOLDEN/v2_global.weights.safetensors
try() { kd-init "$@" >out; echo "$? $(wc -c <out)"; }
try
try "$config" --from "$model"
try "$config" --weights raw
try "$config" --config "$config"
try --from "$model" --seed 3
try --from "$model" --seed 0
try --from "$model" --batch 3
try "$config" --batch 3
try "$config" --to checkpoint
try --from "$model" --dtype fp8
try no-such.json
try --from no-such.safetensors
try --from "$model" --config "$GOLDEN/v2_none_mapcond.config.json"
try "$config" -o no-such-folder/a.safetensors
ls
