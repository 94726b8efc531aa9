# Options at their extremes: what cannot be is refused by its name, before the denoiser is asked; the rest gives finite images.
. "$ROOT/tests/cli/kd-sample/toy.bash"
for i in {1..12}; do printf "$(number 0.25)"; done | toy 0.5 3,2,2 toy.st
say() { kd-sample -q --no-history -n 2 --steps 20 --sampler euler "$@" toy.st -o out.st; echo -n "$? "; }
say --sigma-min 80 --sigma-max 80
say --sigma-min 80 --sigma-max 80 --steps 1
say --sigma-min 79.999999 --schedule exponential
say --sigma-min 79.9999 --schedule exponential
say --sigma-max 1e38
say --rho 1e-9
say --rho 1e-9 --schedule polyexponential
say --rho 1e15
say --rho 1e300 --schedule polyexponential
say --rho -1
say --schedule vp --beta-d 1e9
say --schedule vp --beta-d 99 --beta-min 99
say --schedule vp --beta-d 0 --beta-min 1e-320
say --schedule vp --eps-s 1e-300
say --schedule vp --eps-s 0.999999999999
kd-sample -q toy.st -n 1 --steps 2 -o picture.st
say --from picture.st --sigma 0.001
say --from picture.st --sigma 0
say --cfg 1e300
say --s-churn 1 --s-tmin 3 --s-tmax 2
say --s-churn 1 --s-noise 1e300
say --sampler dpmpp_sde --r 1e-9
kd-sample -q toy.st --sampler dpm_adaptive --accept-safety 1e3; echo "$?"

# Every sampler: levels over many decades, and each of its numbers at 0, very small and very large.
for sampler in $(kd-sample --list | cut -d ' ' -f 1); do
    try()
    {
        local steps=(--steps 7) code
        if [ "$sampler" = dpm_adaptive ]; then steps=(--max-calls 200); fi
        kd-sample -q --no-history -n 2 --float --sampler "$sampler" "${steps[@]}" -o out.st "$@" toy.st 2>why
        code=$?
        case $code in
        0)  ! kd-info --stats out.st | grep 'not finite' || echo "$sampler $*" ;;
        2)  grep -q "expected\|--steps\|uses" why || cat why ;;
        1)  grep -q 'grew without bound\|denoiser calls for an image' why || { echo "$sampler $*"; cat why; } ;;
        *)  echo "$sampler $* $code" ;;
        esac
    }
    for schedule in karras exponential; do
        try --schedule $schedule --sigma-min 1e-30
        try --schedule $schedule --sigma-min 1e-20 --sigma-max 1e20
    done
    for option in eta s-churn s-noise r rtol atol h-init pcoeff icoeff dcoeff accept-safety; do
        if kd-sample --sampler "$sampler" --$option 1 -n 0 toy.st 2>&1 >/dev/null | grep -q uses; then continue; fi
        with=()                                                       # what --s-noise takes to have noise
        case $option,$sampler in s-noise,euler|s-noise,heun|s-noise,dpm_2) with=(--s-churn 5) ;; s-noise,dpm_*t*) with=(--eta 1) ;; esac
        for value in 0 1e-320 1e-9 1e9 1e300; do try --$option $value "${with[@]}"; done
    done
done

# Whatever solves the ODE goes up its levels as well.
for sampler in dpmpp_2m euler heun dpm_2 ddim lms; do
    kd-sample -q --no-history --from picture.st --invert --sampler $sampler --steps 30 toy.st -o up.st
    kd-info --stats up.st | grep -c 'not finite' || true
done
