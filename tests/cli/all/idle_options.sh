# An option that would be without effect beside the others is refused, and nothing is written.
. "$ROOT/tests/cli/kd-sample/toy.bash"
for i in {1..12}; do printf "$(number 0.25)"; done | toy 0.5 3,2,2 toy.st
kd-sample -q toy.st -n 3 --steps 2 -o bytes
kd-sample -q toy.st -n 3 --steps 2 --float -o floats
F=$GOLDEN/fid.safetensors
kd-fid --write-ref stats "$F:d8.x"
ls >before
try() { "$@" >got; echo "$1 $? $(wc -c <got)"; rm got; }
for option in "--metrics fid" --json "-o x" "--bootstrap 3" "--kid-subsets 3" "--kid-size 3" "--kid-part 3" "-k 3" "--splits 3" \
    "--points 3" "--ridge 0" "--seed 1"; do
    try kd-fid --write-ref ref $option "$F:d8.x"
done
for option in "-m fid --kid-subsets 3" "-m fid --kid-size 3" "-m kid --kid-part 3" "-m kid -k 3" "-m fid --splits 3" "-m fid --points 3" \
    "-m kid --ridge 0.1" "-m kid --bootstrap 3" "-m fid,density --seed 3" "-k 3" "--features random" "--resize torch"; do
    try kd-fid $option "$F:d8.x" "$F:d8.y"
done
try kd-fid --kid-subsets 3 stats "$F:d8.y"                           # of statistics there is no kid
kd-fid -m fid --bootstrap 3 --seed 3 "$F:d8.x" "$F:d8.y" | grep -c fid
try kd-sample toy.st --quantize trunc --float
try kd-sample toy.st --quantize trunc --invert --from bytes
try kd-sample toy.st --seed 1 --seeds 2,3
try kd-sample toy.st --seed 1 --interpolate 2,3,4
for option in "--s-tmin 1" "--s-tmax 1" "--s-noise 1"; do try kd-sample toy.st --sampler heun $option; done
try kd-sample toy.st --sampler euler_ancestral --eta 0 --s-noise 1.1
try kd-sample toy.st --sampler dpm_fast --s-noise 1.1
for option in "" "--sampler euler" "--sampler euler_ancestral --eta 0" "--sampler ddpm --s-noise 0"; do
    try kd-sample toy.st $option -n 2 --noise x:y
done
try kd-loglik toy.st floats --dequantize uniform
try kd-grid bytes --quantize trunc
try kd-prep --crop none "$GOLDEN/prep/images/odd_32x33.png"
try kd-prep --resize box "$GOLDEN/prep/images/odd_32x33.png"
try kd-info --config --json toy.st
try kd-info --config --stats toy.st
rm before; ls
