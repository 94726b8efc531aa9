# A model with steps of its own.
kd-init -q --from "$GOLDEN/guided_conv.weights.safetensors" -o m.st
sample() { kd-sample -q --no-history -n 2 --steps 4 "$@" m.st; }
for sampler in ddim ddpm dpmpp_2m dpm_fast; do
    sample --schedule model --sampler $sampler -o o.st
    kd-info o.st | grep '^sampler \|^schedule\|^steps\|^sigma' | tr -s ' \n' ' '
    echo
done
sample --schedule model --steps 1001
echo $?
sample --schedule model --sigma-max 80
echo $?
sample --rho 3 --schedule exponential
echo $?
kd-sample -q --schedule model "$GOLDEN/v2_global.weights.safetensors"
echo $?
