# Each schedule by its options draws what k-diffusion's levels draw, and its end is where it says.
. "$ROOT/tests/cli/kd-sample/toy.bash"
for i in {1..192}; do printf "$(number 0.25)"; done | toy 0.5 3,8,8 toy.st
sample() { kd-sample -q --no-history -n 2 --sampler euler -o out.st "$@" toy.st; tensor out.st image; }
as() # NAME OPTIONS
{
    sample --sigmas "$GOLDEN/schedules.safetensors:$1" >want
    sample --steps 5 "${@:2}" | cmp - want && echo "$1: equal"
    header out.st | grep -ao '"schedule":"[a-z]*"\|"steps":"[^"]*"\|"rho":"[^"]*"\|"sigma_m[a-z]*":"[^"]*"' | tr '\n' ' '
    echo
    if [ -e last ]; then ! cmp -s last want || echo "no other than the one before"; fi
    mv want last
}
as karras.n5.min0.01.max80.0.rho7.0
as karras.n5.min0.002.max160.0.rho3.0 --sigma-min 0.002 --sigma-max 160 --rho 3
as exponential.n5.min0.03.max14.6 --schedule exponential --sigma-min 0.03 --sigma-max 14.6
as polyexponential.n5.min0.01.max80.0.rho1.0 --schedule polyexponential
as polyexponential.n5.min0.01.max80.0.rho2.0 --schedule polyexponential --rho 2
as vp.n5.betad19.9.betamin0.1.eps0.001 --schedule vp
as vp.n5.betad10.0.betamin0.5.eps0.01 --schedule vp --beta-d 10 --beta-min 0.5 --eps-s 0.01
# Above sigma_max, nothing, and too little for a float.
for low in 81 0 -1 1e-40 nan inf; do
    for schedule in karras exponential polyexponential; do kd-sample -q --schedule $schedule --sigma-min $low toy.st; echo -n "$? "; done
done
echo
