# Images with a value that is no finite number are refused wherever images are read, with the number of the image.
model=$GOLDEN/v2_global.weights.safetensors
frame() { printf "\\x$(printf %02x ${#1})\0\0\0\0\0\0\0%s" "$1"; }
{ frame '{"image":{"dtype":"F32","shape":[3,16,16,3],"data_offsets":[0,9216]}}'; head -c 6000 /dev/zero; printf '\0\0\300\177'
  head -c 3212 /dev/zero; } >nan.st                                                             # in image 1
{ frame '{"image":{"dtype":"F32","shape":[1,16,16,3],"data_offsets":[0,3072]}}'; head -c 3068 /dev/zero; printf '\0\0\200\377'; } >inf.st
{ frame '{"x":{"dtype":"F32","shape":[2,3,16,16],"data_offsets":[0,6144]}}'; head -c 6140 /dev/zero; printf '\0\0\300\177'; } >x.st
{ frame '{"e":{"dtype":"F32","shape":[2,2,3,16,16],"data_offsets":[0,12288]}}'; head -c 12284 /dev/zero; printf '\0\0\300\177'; } >e.st
try() { "$@" >out; echo "$? $(wc -c <out)"; }
try kd-sample $model --init x.st:x --steps 2
try kd-sample $model --noise e.st:e -n 2 --sampler euler_ancestral --steps 2
try kd-sample $model --from nan.st --sigma 1 --steps 2
try kd-sample $model --from inf.st --sigma 1 --steps 2
try kd-loglik $model nan.st
try kd-loglik -n 1 $model - <inf.st
try kd-train -q -c "$GOLDEN/v2_global.config.json" nan.st --steps 1
try kd-grid nan.st
try kd-fid --features random inf.st nan.st
kd-info --stats nan.st | grep -i finite                # says what is there
rm ./*.st out
