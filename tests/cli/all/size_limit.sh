# A file that may not grow as far as needed (ulimit -f) is an error with a sentence and leaves nothing, for every tool that writes.
# timeout: 600
small=$ROOT/tests/cli/kd-train/small.json
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
kd-prep -q --no-history --size 28 --channels 1 "$GOLDEN"/prep/images/*.png --labels none --limit 5 -o images
mkdir -p names/{0..9}
for i in {0..9}; do cp "$GOLDEN/prep/images/odd_32x33.png" names/$i; done
kd-prep -q --no-history --size 14 --channels 1 --labels dir names -o small
{ h='{"x":{"dtype":"F32","shape":[1,1,28,28],"data_offsets":[0,3136]},"sigma":{"dtype":"F32","shape":[1],"data_offsets":[3136,3140]},'
  h+='"class_cond":{"dtype":"I64","shape":[1],"data_offsets":[3140,3148]}}'
  printf "\\x$(printf %02x ${#h})\0\0\0\0\0\0\0%s" "$h"; head -c 3136 /dev/zero; printf '\0\0\200\77\0\0\0\0\0\0\0\0'; } >call
mkdir empty
limited() # BLOCKS COMMAND...: blocks of 1024 bytes
{
    local blocks=$1; shift
    (cd empty && ulimit -f "$blocks" && exec "$@") 2>&1 | sed 's,/[^ ]*/tmp:,tmp:,'     # not to a file: it would be limited too
    echo "$1 ${PIPESTATUS[0]}"
    ls -A empty
    rm -rf empty; mkdir empty
}
limited 1 kd-prep -q --size 28 "$GOLDEN/prep/images/odd_32x33.png" -o out
limited 2 kd-init "$small" -o out
limited 2 kd-sample -q -n 8 --steps 1 "$model" -o out
limited 0 kd-denoise "$model" ../call -o out
limited 2 kd-fid -q --features random --write-ref out ../small
limited 2 kd-fid -q --features random --write-ref out --keep-features ../small
limited 0 kd-loglik -q -n 1 --rtol 1 --atol 1 --class 1 "$model" ../images -o out
limited 1 kd-grid ../images --scale 9 -o out
limited 0 kd-grid ../images --each 'out_%d.png'
limited 0 kd-info ../images -o out
limited 2 kd-train -q -c "$small" ../small --steps 2 -b 2 -o out
