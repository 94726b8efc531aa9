# Each mistake has its sentence and exit code, and nothing comes out.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
plain=$GOLDEN/v2_global.weights.safetensors
try() { kd-sample "$@" >out; echo "$? $(wc -c <out)"; }
try --steps 0 "$model"
try --sigma-min 0 "$model"
try --sigma-min -1 "$model"
try --sigma-min 3 --sigma-max 2 "$model"
try --rho 0 "$model"
try --sampler eular "$model"
try --order 0 "$model"
try --class 10 "$model"
try --class 1,,2 "$model"
try --class x "$model"
try --class 1 "$plain"
try --first 1099511627775 -n 2 "$model"
try missing.safetensors
try "$GOLDEN/v2_none_mapcond.weights.safetensors"
try "$GOLDEN/densities.safetensors"
try --sigma-max 3.3e38 --steps 4 -n 2 "$plain"
kd-sample -n 2000 --steps 1 -q "$plain" | head -c 100 >out
echo "${PIPESTATUS[0]}"
