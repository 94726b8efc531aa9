# Configs and files that are refused, with the reason.
try() { kd-init "$@" >out; echo "$? $(wc -c <out)"; }
edit() { sed "$1" "$GOLDEN/configs/config_oxford_flowers.json" >cfg.json; try cfg.json; }
edit 's/"depths"/"dephts"/'
edit 's/"depths": \[2, 2, 4\]/"depths": [2, 2]/'
edit 's/"input_size": \[256, 256\]/"input_size": [256, 100]/'
edit 's/"kernel_size": 7/"kernel_size": 8/'
edit 's/"type": "adamw"/"type": "adam8bit"/'
edit 's/image_transformer_v2/image_v2/'
head -c 5000 "$GOLDEN/v2_global.weights.safetensors" >short.safetensors
try --from short.safetensors
printf 'PK\3\4 and so on' >model.pth
try --from model.pth
printf "\200\2}q.and so on" >old.pth
try --from old.pth
try --from "$GOLDEN/configs/config_oxford_flowers.json"
ls
