# Options that do not go together, each with its sentence.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
plain=$GOLDEN/v2_global.weights.safetensors
golden=$GOLDEN/samplers.safetensors
kd-sample -q -n 2 --steps 1 "$model" >p.st
try() { kd-sample -q "$@" "$model" >out; echo "$? $(wc -c <out)"; }
try --seeds 1,2 --interpolate 1,2,3
try --seeds 1-
try --interpolate 1,2
try --interpolate 1,2,3 -n 4
try --from p.st
try --sigma 3
try --from p.st --sigma 3 --sigma-max 4
try --from p.st --sigma 3 --schedule vp
try --from p.st --sigma 3 -n 3
try --mask p.st
try --invert
try --from p.st --invert --sampler dpmpp_sde
try --from p.st --invert --sampler heun --s-churn 2
try --from p.st --invert --steps 1
try --from "$golden" --sigma 3
try --sampler dpm_adaptive --order 4
try --sampler dpm_adaptive --rtol 0 --atol 0 --max-calls 30
try --cfg-interval 3
try --cfg 2 --cfg-interval 3,1
try --guide "$model"
try --guide "$plain" --cfg 2
try --sigmas "$golden"
try --sigmas "$golden:nothing"
try --sigmas "$golden:mu"
try --init "$golden:x.k10_80"
try --sampler euler_ancestral --noise "$golden:noise_bank"
try --schedule vp --eps-s 1
try --sigma-min 1e-40
try --sampler heun --eta 0.5
try --error-norm batch
try --sampler ddim --s-noise 1
try --percentile 99 --threshold static
try --cfg-interval 0,1
try --sampler dpm_adaptive --steps 5
try --sigmas "$golden:sigmas.k10_80" --steps 5
try --sigmas "$golden:sigmas.k10_80" --schedule karras
try --sampler dpm_fast --rho 5
try --eps-s 0.1
kd-sample -q --cfg 2 "$plain"
