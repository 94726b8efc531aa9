# A mixture of Gaussians as a model: its config; the same bytes again when read; mistakes.
pair() { printf '"%s":{"dtype":"F32","shape":[2],"data_offsets":[%d,%d]}' "$1" "$2" $(($2 + 8)); }
printf '{%s,%s,%s}' "$(pair weight 0)" "$(pair std 8)" "$(pair mean 16)" >h
frame() { printf "\\x$(printf %02x "$(wc -c <h)")\0\0\0\0\0\0\0"; cat h; printf "$1"; }
frame '\0\0\x80\x3f\0\0\0\x40\0\0\0\x3f\0\0\x80\x3f\0\0\0\0\0\0\x80\xbf' >mix.st       # 1 2, 0.5 1, 0 -1
frame '\0\0\x80\x3f\0\0\0\x40\0\0\0\x3f\0\0\0\0\0\0\0\0\0\0\x80\xbf' >zero.st
kd-init --no-history --toy mix.st --shape 3,4,2 -o m.st && kd-info m.st | grep -v bytes
kd-init --no-history --from m.st | cmp - m.st && echo same
kd-init --toy mix.st
echo $?
kd-init --toy zero.st --shape 3,4,2
echo $?
kd-init --toy "$GOLDEN/densities.safetensors"
echo $?
kd-init --toy mix.st --shape 3x4
echo $?
kd-init --shape 3,4,2 "$GOLDEN/v2_global.config.json"
echo $?
kd-init --toy mix.st --seed 3
echo $?
