# Runs of k-diffusion in float64 from the command line: the same start, levels and noise, through a toy model.
. "$ROOT/tests/cli/kd-sample/toy.bash"
golden=$GOLDEN/samplers.safetensors
tensor "$golden" mu | toy 0.5 3,4,4 gauss.st

# The worst difference of [2,4,4,3] F32 from [2,3,4,4] F64, relative to the largest number.
near()
{
    paste <(tensor out.st image | floats) <(tensor "$1" "$2" | od -An -v -w8 -tf8) | awk -v name="$2" -v allowed="$3" '
        { got[NR - 1] = $1; want[NR - 1] = $2; most = $2 > most ? $2 : -$2 > most ? -$2 : most }
        END { for (i = 0; i < 96; i++) { p = i % 48; d = got[i] - want[int(i / 48) * 48 + p % 3 * 16 + int(p / 3)]; d = d < 0 ? -d : d
                  if (!(d <= worst)) worst = d }
              print name ": " (NR == 96 && worst / most <= allowed ? "as k-diffusion" : "off by " worst / most) }'
}
noise() # NAME: its noise, if it draws any
{
    case $1 in lms*|dpmpp_2m|*eta0.0|adaptive*) noise=() ;; *) noise=(--noise "$golden:noise_bank") ;; esac
}
run() # NAME OPTIONS
{
    noise "$1"
    kd-sample -q --init "$golden:x.k10_80" --sigmas "$golden:sigmas.k10_80" "${noise[@]}" --float "${@:2}" -o out.st gauss.st
    near "$golden" "gauss.k10_80.$1" 1e-5
}
run euler.churn --sampler euler --s-churn 4 --s-tmin 0.05 --s-tmax 50 --s-noise 1.003
run heun.churn_big --sampler heun --s-churn 1000
run lms.order2 --sampler lms --order 2
run dpmpp_2m --sampler dpmpp_2m
run dpm_2_ancestral.eta0.5 --sampler dpm_2_ancestral --eta 0.5
run dpmpp_2s_ancestral.eta1.0 --sampler dpmpp_2s_ancestral
run dpmpp_sde.eta1.0.r0.333 --sampler dpmpp_sde --r 0.333 -b 1
run dpmpp_3m_sde.eta0.5 --sampler dpmpp_3m_sde --eta 0.5
run dpmpp_2m_sde.heun.eta1.0 --sampler dpmpp_2m_sde --solver heun

golden=$GOLDEN/samplers_dpm.safetensors
dpm() # NAME ALLOWED OPTIONS
{
    noise "$1"
    kd-sample -q --init "$golden:x.80.0" --sigma-max 80 --sigma-min 0.01 "${noise[@]}" --float "${@:3}" -o out.st gauss.st
    near "$golden" "gauss.max80.0.$1" "$2"
}
dpm fast.n11.eta1.0 1e-4 --sampler dpm_fast --steps 11 --eta 1
dpm fast.n12.eta0.0 1e-4 --sampler dpm_fast --steps 12
dpm adaptive.1 1e-4 --sampler dpm_adaptive --order 2 --error-norm batch
dpm adaptive.6 1e-3 --sampler dpm_adaptive --rtol 0.2 --atol 0.1 --h-init 1 --accept-safety 0.9 --error-norm batch
