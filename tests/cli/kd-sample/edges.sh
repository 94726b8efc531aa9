# Each sampler at its edges: one step, asked steps are done steps, no images, a constant denoiser, one that returns NaN.
. "$ROOT/tests/cli/kd-sample/toy.bash"
plain=$GOLDEN/v2_global.weights.safetensors
awk 'BEGIN { for (i = 0; i < 12; i++) print 0.7 }' | while read -r x; do printf "$(number "$x")"; done | toy 1e-6 3,2,2 constant.st
{ head -c -4 "$plain"; printf '\377\377\377\377'; } >nan.st                  # the last weight
integers() { tensor "$1" "$2" | od -An -v -w24 -td8 | tr -s ' '; }
for sampler in $(kd-sample --list | cut -d ' ' -f 1); do
    sample() # STEPS ...; dpm_adaptive finds its own
    {
        local steps=(--steps "$1")
        if [ "$sampler" = dpm_adaptive ]; then steps=(); fi
        kd-sample -q --no-history -n 3 --sampler "$sampler" --float -o out.st "${steps[@]}" "${@:2}"
    }
    echo "$sampler"
    for steps in 1 5; do
        sample $steps "$plain" || echo "exit $?"
        header out.st | grep -ao '"steps":"[0-9]*"' | tr '\n' ' '
        integers out.st calls | awk -v free="$sampler" '{ print "calls" (free == "dpm_adaptive" ? ($1 % 3 ? " ?" : " thrice") : $0) }'
        tensor out.st image | floats | grep -c 'nan\|inf'
    done
    sample 3 -n 0 "$plain" && header out.st | grep -ao '"shape":\[0,16,16,3\]'
    sample 20 constant.st
    tensor out.st image | floats | awk '{ d = $1 - 0.7; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d }
        END { print NR, (worst <= 1e-6 ? "within 1e-6" : worst <= 0.05 ? "at sigma_min" : "off by " worst) }'
    rm out.st
    sample 4 nan.st
    echo "exit $?" out*
done
