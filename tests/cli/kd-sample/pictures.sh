# Starting from pictures: img2img, inpainting, inversion and back, trajectories.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
length() { od -An -tu8 -N8 "$1" | tr -d ' '; }
data() { tail -c +$((9 + $(length "$1"))) "$1"; }                            # of a file of one frame
shape() { head -c $((8 + $(length "$1"))) "$1" | grep -ao "\"shape\":\[[0-9]*,28,28,1\]"; }
sample() { kd-sample -q --no-history "$@" "$model"; }
differ() { cmp -l <(data "$1" | head -c "$3") <(data "$2" | head -c "$3") | wc -l; }        # bytes that differ

sample -n 5 --seed 3 --steps 2 -o p.st; cp p.st p5.st
sample --from p.st --sigma 0.02 --sigma-min 0.01 --steps 3 -o low.st; shape low.st
sample --from p.st --sigma 40 --steps 3 -b 2 -o high.st
sample --from p.st --sigma 40 --steps 3 -o high2.st; cmp high.st high2.st && echo "batches do not matter"
[ "$(differ low.st p.st $((5 * 784)))" -lt "$(differ high.st p.st $((5 * 784)))" ] && echo "more noise, more change"
sample --from p.st --sigma 3 -n 6 -o x.st; echo "$?"
sample --from p.st --sigma 3 -n 2 -o x.st; shape x.st

# One picture serves all. Labels come from it, unless --class is given.
sample --from p.st --sigma 3 -n 1 -o one.st
sample --from one.st --sigma 3 --seed 4 -n 3 --steps 2 -o x.st; shape x.st

# A mask: the left half white, one for all. Kept pixels are kept to the bit.
header='{"image":{"dtype":"U8","shape":[1,28,28,1],"data_offsets":[0,784]}}'
{ printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0%s" "$header"
  for i in {1..28}; do printf '\377%.0s' {1..14}; printf '\0%.0s' {1..14}; done; } >mask.st
for sampler in dpmpp_2m euler_ancestral dpmpp_sde; do
    sample --from p.st --mask mask.st --sampler $sampler --steps 4 -o in.st
    left() { data "$1" | head -c $((5 * 784)) | od -An -v -w28 -tu1 | cut -c 1-56; }
    right() { data "$1" | head -c $((5 * 784)) | od -An -v -w28 -tu1 | cut -c 57-; }
    cmp <(right in.st) <(right p.st) && ! cmp -s <(left in.st) <(left p.st) && echo "$sampler: inpainted"
done

# To the noise and back, within 0.04, with a trained model, whose ODE is smooth.
. "$ROOT/tests/cli/kd-sample/toy.bash"
model=$GOLDEN/digits_run/digits.fp16.safetensors
sample -n 2 --class 3,8 --steps 10 -o p.st
sample --from p.st --invert --sampler heun --steps 60 -o noise.st; shape noise.st
sample --init noise.st:image --class 3,8 --sampler heun --steps 60 --float -o back.st
paste <(tensor p.st image | od -An -v -w1 -tu1) <(tensor back.st image | floats) | awk '
    { d = $1 / 255 * 2 - 1 - $2; d = d < 0 ? -d : d; if (!(d <= worst)) worst = d }
    END { print NR, (worst <= 0.04 ? "inverted" : "inversion is off by " worst) }'

# Every step, image by image; the last one is the result.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
sample -n 3 --steps 4 -b 2 --trajectory -o t.st; shape t.st
sample -n 3 --steps 4 -o s.st
image() { data "$1" | tail -c +$((1 + 784 * $2)) | head -c 784; }
for k in 0 1 2; do cmp <(image t.st $((4 * k + 3))) <(image s.st $k) && echo "$k ends"; done
sample -n 3 --steps 7 --sampler dpm_fast --trajectory -o t.st; shape t.st

# Images of dpm_adaptive have steps of their own, however they are batched; each belongs to the image that its index says.
adaptive() { sample --sampler dpm_adaptive --order 2 --trajectory "$@"; }
adaptive -n 3 -b 3 -o t.st
adaptive -n 3 -b 2 -o u.st && cmp t.st u.st && echo "batches do not matter"
tensor t.st index | od -An -v -w8 -td8 | uniq -c | awk '{ print "image", $2, ($1 > 9 ? "steps" : "few steps"); if (n[$1]++ == 0) kinds++ }
    END { print (kinds > 1 ? "of different number" : "all the same") }'
adaptive -n 1 --first 2 -o one.st
tensor one.st image | cmp - <(tensor t.st image | tail -c "$(tensor one.st image | wc -c)") && echo "alone too"

# Without -n a single picture is one image too, noised, inverted or under one of many masks.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
sample --from p5.st --sigma 3 -n 1 --steps 2 -o p1.st
sample --from p1.st --sigma 3 --steps 2 -o x.st; shape x.st
sample --from p1.st --invert --steps 2 -o x.st; shape x.st
sample --from p1.st --mask p5.st --steps 2 -o x.st; shape x.st
sample --from p5.st --mask mask.st --steps 2 -o x.st; shape x.st
