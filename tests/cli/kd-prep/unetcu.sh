# unet.cu's file of images gives the grey levels of the pictures that its own program made it from; gzip too.
kd-prep -q --no-history "$GOLDEN/checkpoints/kdiff_train_images" -o folder.safetensors
kd-prep --no-history "$GOLDEN/unetcu_images.bin" -o images.safetensors
cmp images.safetensors folder.safetensors && echo same
gzip -c "$GOLDEN/unetcu_images.bin" >images.bin.gz
kd-prep --no-history images.bin.gz -o images.safetensors
cmp images.safetensors folder.safetensors && echo same
kd-prep --no-history --size 10 --channels 1 - <"$GOLDEN/unetcu_images.bin" | kd-info - | tail -n 1
try() { kd-prep "$1" >out; echo "$? $(wc -c <out)"; }
head -c 10000 "$GOLDEN/unetcu_images.bin" >short.bin
try short.bin
head -c 700 "$GOLDEN/unetcu_images.bin" >shorter.bin
try shorter.bin
{ cat "$GOLDEN/unetcu_images.bin"; echo more; } >long.bin
try long.bin
{ head -c 8 "$GOLDEN/unetcu_images.bin"; printf '\2'; tail -c +10 "$GOLDEN/unetcu_images.bin"; } >two.bin
try two.bin
{ head -c 1024 "$GOLDEN/unetcu_images.bin"; printf '\0\0\300\177'; tail -c +1029 "$GOLDEN/unetcu_images.bin"; } >nan.bin
try nan.bin
{ head -c 1024 "$GOLDEN/unetcu_images.bin"; printf '\0\0\300\77'; tail -c +1029 "$GOLDEN/unetcu_images.bin"; } >large.bin
try large.bin
