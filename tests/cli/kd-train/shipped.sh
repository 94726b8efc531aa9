# The eight configs that k-diffusion ships, narrower and with fewer layers: each is made, trained and sampled from.
. "$ROOT/tests/cli/kd-train/setup.bash"
for channels in 1 3; do
    for size in 28 32 64; do
        kd-prep -q --no-history "$mnist" --size $size --channels $channels --limit 8 -o $channels.$size.st
    done
done
for path in "$GOLDEN"/configs/config_*.json; do
    [[ $path == *.filled.json ]] && continue
    name=$(basename "$path" .json)
    sed 's/\[256, 256\]/[64, 64]/; s/\("depths": \)\[2, ., 4\]/\1[1, 1, 1]/; s/\("depths": \)\[2, 4\]/\1[1, 1]/
         s/\("depths": \)\[8\]/\1[1]/
         s/\[128, 256, 512\]/[32, 64, 64]/; s/\[128, 128, 256\]/[32, 32, 64]/; s/\("widths": \)\[256, 512\]/\1[64, 128]/
         s/\("widths": \)\[256\]/\1[64]/; s/"widths": \[32,/"widths": [64,/' "$path" >"$name.json"
    channels=$(grep -o '"input_channels": .' "$name.json") size=$(grep -o '"input_size": \[..' "$name.json")
    echo "$name: $(kd-init -q "$name.json" --no-history | kd-info - | grep ^tensors)"
    kd-train -q -c "$name.json" --name "$name" --steps 2 --batch 2 --no-history \
        "${channels: -1}.${size: -2}.st" -o "$name.st" || echo "train: $?"
    grep -c '"loss": [0-9]' "${name}_log.jsonl"
    kd-sample -q -n 2 -s 2 "$name.st" | kd-info - | grep '^ *image'
done
