# Exactly n images, with labels in turn, indices, seeds and calls; what the metadata say.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
length() { od -An -tu8 -N8 "$1" | tr -d ' '; }
header() { tail -c +9 "$1" | head -c "$(length "$1")" | sed 's/ *$//; s/,"kd_xxh3":"[0-9a-f]*"//'; echo; }     # of the first frame
integers() { local n; n=$(length "$1"); tail -c +$((9 + n + $2)) "$1" | head -c $((8 * $3)) | od -An -v -w8 -tu8 | tr -s ' \n' ' '; echo; }

for n in 0 1 5; do
    kd-sample -q --no-history -n $n --steps 1 --seed 9 --first 3 -o s "$model"
    echo "$n: exit $?"
    header s
done
for k in 0 5 10 15; do integers s $((5 * 784 + 8 * k)) 5; done              # label, index, seed, calls
kd-sample -q --no-history -n 70 --steps 1 --batch 7 "$model" >s             # frames of 64 and 6 images
grep -ao '"shape":\[[0-9]*,28,28,1\]\|"kd_part":"[0-9]"\|"kd_last":"[^"]*"' s

for class in 3 3,1,2 all none; do
    kd-sample -q --no-history -n 4 --steps 1 --first 1 --class $class -o s "$model" || echo "exit $?"
    echo "$class: $(header s | grep -co '"label"') $(integers s $((4 * 784)) 4)"            # for none: the indices
done
kd-sample -q --no-history -n 2 --steps 2 --sampler heun --float --s-churn 1 --s-tmin 0.5 -o s "$model" &&
    header s && integers s $((2 * 784 * 4 + 48)) 2
kd-sample -q --no-history -n 2 --steps 2 --sampler dpmpp_2m_sde --eta 0.5 --rho 5 --sigma-min 0.1 "$GOLDEN/v2_global.weights.safetensors" >s
header s
kd-sample -q --no-history -n 2 --steps 1 <"$model" >s && kd-sample -q --no-history -n 2 --steps 1 - <"$model" | cmp - s && echo stdin
kd-sample -q -n 1 --steps 1 "$model" >s
header s | grep -o '"kd_history":"kd-sample -q -n 1 --steps 1 ' && echo history
kd-sample --list
