# For tests on toy models: tensors out of files, and models whose denoiser is known.
length() { od -An -tu8 -N8 "$1" | tr -d ' '; }                               # of the first frame's header
header() { tail -c +9 "$1" | head -c "$(length "$1")"; }
tensor() # FILE NAME: its bytes
{
    local from to
    IFS=, read -r from to < <(header "$1" | grep -ao "\"$2\":{[^}]*}" | sed 's/.*"data_offsets":\[\([0-9, ]*\)\].*/\1/')
    tail -c +$((9 + $(length "$1") + from)) "$1" | head -c $((to - from))
}
floats() { od -An -v -w4 -tf4; }

# number FLOAT: its four bytes
number() { awk -v x="$1" 'BEGIN { if (x == 0) { printf "\\0\\0\\0\\0"; exit }
    s = x < 0; if (s) x = -x
    for (e = 127; x >= 2; e++) x /= 2
    for (; x < 1; e--) x *= 2
    m = int((x - 1) * 8388608 + 0.5)
    printf "\\%03o\\%03o\\%03o\\%03o", m % 256, int(m / 256) % 256, int(m / 65536) + e % 2 * 128, s * 128 + int(e / 2) }'; }

# toy DEVIATION C,H,W FILE: a model of one Gaussian, its mean from stdin
toy()
{
    local shape=$2 file=$3 bytes head
    cat >"$file.mean"
    bytes=$(wc -c <"$file.mean")
    head=$(printf '{"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"std":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},')
    head+=$(printf '"mean":{"dtype":"F32","shape":[1,%s],"data_offsets":[8,%d]}}' "$shape" $((8 + bytes)))
    { printf "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0%s" "$head"; printf "$(number 1)$(number "$1")"; cat "$file.mean"; } >"$file.toy"
    kd-init -q --no-history --toy "$file.toy" -o "$file"
}
