# Image k is the same bytes whatever the batch, the number of threads, -n and --first. With trained or golden weights: a fresh
# model answers zero and proves nothing.
# timeout: 600
export OMP_WAIT_POLICY=passive           # eight threads on two busy cores spend their time waiting for each other
sample() { kd-sample --no-history -q --seed 5 "$@"; }
for model in "$GOLDEN/v2_neighborhood_k7.weights.safetensors" "$GOLDEN/digits_run/digits.fp16.safetensors"; do
    sample -n 37 --steps 3 --sampler dpmpp_2m_sde "$model" >want
    echo "$(wc -c <want) bytes"
    for threads in 1 2 3 8; do
        for batch in 1 3 16 64; do
            sample -n 37 --steps 3 --sampler dpmpp_2m_sde --batch $batch --threads $threads "$model" | cmp - want &&
                echo "$(basename "$model" .safetensors) threads $threads batch $batch: equal"
        done
    done
done

# The other samplers, and a part of a run.
pixels() { local n; n=$(od -An -tu8 -N8 "$1"); tail -c +$((9 + n)) "$1" | tail -c +$(($2 + 1)) | head -c "$3"; }
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
. "$ROOT/tests/cli/kd-sample/samplers.bash"
for sampler in $(kd-sample --list | cut -d ' ' -f 1); do
    sample -n 7 --sampler "$sampler" $(options_of $sampler) --batch 5 --threads 2 -o all.safetensors "$model"
    sample -n 3 --sampler "$sampler" $(options_of $sampler) --first 4 --batch 2 --threads 1 -o part.safetensors "$model"
    pixels all.safetensors $((4 * 784)) $((3 * 784)) >a
    pixels part.safetensors 0 $((3 * 784)) >b
    cmp a b && echo "$sampler: equal"
done
sample -n 3 --steps 3 --seed 6 -o other.safetensors "$model"
sample -n 3 --steps 3 -o this.safetensors "$model"
cmp -s other.safetensors this.safetensors || echo "another seed: other images"
