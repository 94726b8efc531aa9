# Exactly n images, with labels in turn, indices, seeds and calls.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
for n in 0 1 5 70; do
    kd-sample -q --no-history -n $n --steps 1 --seed 9 --first 3 "$model" >s
    echo "$n: exit $?"
    kd-info s | sed 's/^/  /'
done
for class in 3 3,1,2 all none; do
    kd-sample -q --no-history -n 4 --steps 1 --first 1 --class $class -o s "$model" || echo "exit $?"
    kd-info s | grep -c label
    echo "$class: $(tail -c 128 s | head -c 32 | od -An -tu8 -w32)"
done
kd-sample -q --no-history -n 2 --steps 2 --sampler heun --float "$model" | kd-info - | grep -E 'image|calls'
kd-sample -q --no-history -n 2 --steps 1 <"$model" >s && kd-sample -q --no-history -n 2 --steps 1 - <"$model" | cmp - s && echo stdin
kd-sample --list
