# A value that is no finite number, in any input, and two names for one: a line that names it, and nothing comes out.
model=$GOLDEN/v2_global.weights.safetensors
guided=guided.safetensors
cat >guided.json <<'J'
{ "model": { "type": "guided_diffusion", "image_size": 4, "num_channels": 32, "num_res_blocks": 1, "channel_mult": "1",
             "attention_resolutions": "", "num_heads": 1, "class_cond": true } }
J
kd-init guided.json -o $guided
# tensors NAME DTYPE SHAPE BYTES ...: a frame; the bytes of each as printf takes them, the last ones after zeros to fill the shape
tensors() {
    local header='' data='' at=0 n
    while [ $# -gt 0 ]; do
        n=$(( ${3//,/*} * ($(printf $2 | tr -d A-Z) / 8) ))
        header="$header,\"$1\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[$at,$((at + n))]}"
        at=$((at + n)); data="$data $n:$4"
        shift 4
    done
    header="{${header#,}}"
    while [ $(( ${#header} % 8 )) != 0 ]; do header="$header "; done
    printf "\\x$(printf %02x $(( ${#header} % 256 )))\\x$(printf %02x $(( ${#header} / 256 )))\0\0\0\0\0\0%s" "$header"
    for d in $data; do
        n=$(printf "${d#*:}" | wc -c)
        head -c $(( ${d%%:*} - n )) /dev/zero; printf "${d#*:}"
    done
}
one='\0\0\200\77' ones='\0\0\200\77\0\0\200\77' nan='\0\0\300\177' inf='\0\0\200\377'
try() { kd-denoise "$@" >out; echo "$? $(wc -c <out)"; }
images=2,3,16,16
tensors sigma F32 2 "$ones" x F32 $images "$one" >s && kd-denoise $model s | kd-info - | grep -c denoised
tensors sigma F32 2 "$one$nan" x F32 $images "$one" >s && try $model s
tensors sigma F32 2 "$one$inf" x F32 $images "$one" >s && try $model s
tensors sigma F32 2 "$ones" x F32 $images "$nan" >s && try $model s
tensors sigma F32 2 "$ones" x F64 $images '\0\0\0\0\0\0\360\376' >s && try $model s      # -8e303
tensors sigma F32 2 "$ones" x F32 $images "$inf$one" >s && try $model s
tensors sigma F32 2 "$ones" x F32 $images "$one" v F32 $images "$nan" >s && try --vjp $model s
tensors sigma F32 2 "$ones" x0 F32 $images "$nan" noise F32 $images "$one" >s && try --loss $model s
tensors sigma F32 2 "$ones" x0 F32 $images "$one" noise F32 $images "$inf" >s && try --loss $model s
tensors sigma F32 2 "$ones" x F32 $images "$one" aug_cond F32 2,9 "$nan" >s && try $model s
images=2,3,4,4
tensors t F32 2 "$ones" x F32 $images "$one" y I32 2 '' >s && kd-denoise $guided s | kd-info - | grep -c out
tensors t F32 2 "$nan$one" x F32 $images "$one" y I32 2 '' >s && try $guided s
tensors t F32 2 "$one$inf" x F32 $images "$one" y I32 2 '' >s && try $guided s
tensors t F32 2 "$ones" x F32 $images "$one" y I32 2 '' target F32 $images "$nan" >s && try --loss $guided s
tensors t F32 2 "$ones" x F32 $images "$one" y I32 2 '' class_cond I32 2 '' >s && try $guided s
tensors sigma F32 2 "$ones" x F32 $images "$one" y I32 2 '' class_cond I32 2 '' >s && try $guided s
tensors sigma F32 2 "$ones" t F32 2 "$ones" x F32 $images "$one" y I32 2 '' >s && try $guided s
rm s out guided.json $guided
