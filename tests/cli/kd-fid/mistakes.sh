# What cannot be compared, and files that are something else.
F=$GOLDEN/fid.safetensors
# frame HEADER BYTES: a file with that header and so many bytes of zeros
frame() { printf "\\x$(printf %02x $((${#1} % 256)))\\x$(printf %02x $((${#1} / 256)))\\0\\0\\0\\0\\0\\0%s" "$1"; head -c "$2" /dev/zero; }
frame '{"a":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}' 16 >one
frame '{"a":{"dtype":"I64","shape":[2,4],"data_offsets":[0,64]}}' 64 >integers
frame '{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}' 32 >flat
frame '{"a":{"dtype":"F64","shape":[2,2],"data_offsets":[0,32]}}' 32 >same
made() { frame '{"__metadata__":{"kd":"features/1",'"$1"'},"feature":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}' 24; }
made '"extractor":"inception","extractor_hash":"01","resizer":"clean"' >a
made '"extractor":"inception","extractor_hash":"02","resizer":"clean"' >b
made '"extractor":"inception","extractor_hash":"01","resizer":"torch"' >c
made '"extractor":"random features (inception)"' >r
frame '{"__metadata__":{"kd":"stats/1","n":"1"},"mu":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}' 8 >one_n
frame '{"__metadata__":{"kd":"stats/1","n":"9"},"mu":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}' 8 >no_cov
frame '{"__metadata__":{"kd":"features/1"},"feature":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}' 7 >short
try() { kd-fid "$@"; echo "exit $?"; }
try one:a one:a
try integers:a integers:a
try flat:a same:a
try same:a same:b
try same:a same:a                                   # two images that are alike: no distance at all
try same:a one:a
try $F:d8.x $F:d64.y 2>&1
try a b
try a c
try a c --force -m fid
try r r -m fid
try r r -m fid --json
try a a --bootstrap 1
try one_n a
try no_cov a
try short a
try nowhere a
try nowhere:x a
try a - </dev/null
try - -
try
try a b c
try a -m fud
try a -m
try a a -m nonsense
try a a -m sfid
try a a -m is
try a a -m precision
kd-fid --write-ref s a
try s a -m kid
try s a --force
try --write-ref s2 --keep-features s
try --write-ref s2 a b
try a b --keep-features
try "$GOLDEN/v2_global.weights.safetensors" a 2>&1
ls
