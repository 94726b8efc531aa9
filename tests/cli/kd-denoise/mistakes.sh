# Each mistake has its sentence and exit code, and nothing comes out.
model=$GOLDEN/v2_none_mapcond.weights.safetensors
io=$GOLDEN/v2_none_mapcond.io.safetensors
try() { kd-denoise "$@" >out; echo "$? $(wc -c <out)"; }
try
try - -
try "$model" missing.safetensors
try missing.safetensors "$io"
try "$model" "$model"
try "$model" "$GOLDEN/v2_global.io.safetensors"
try "$GOLDEN/v2_none_mapcond.config.json" "$io"
try --batch 0 "$model" "$io"

# Frames made here: frame METADATA-AND-TENSORS-JSON BYTES...; sigma two floats, x and others wrong or absent
frame() { printf "\\x$(printf %02x ${#1})\\0\\0\\0\\0\\0\\0\\0%s" "$1"; printf "$2"; }
one='\0\0\200\77'                                        # 1.0
zero='\0\0\0\0'
frame '{"sigma":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' "$one$one" >s
try "$model" s
try --loss "$model" s
frame '{"sigma":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' "$one$zero" >s
try "$model" s
frame '{"sigma":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}' "$one" >s
try "$model" s
frame '{"sigma":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}' "$one" >s
try "$model" s
frame '{"sigma":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' "$one$one" >s
try "$model" s
head -c 1000 "$io" | try "$model"
