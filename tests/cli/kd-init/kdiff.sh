# --to kdiff writes what k-diffusion can use, and refuses what it would misread.
cat >guided.json <<'J'
{ "model": { "type": "guided_diffusion", "image_size": 16, "num_channels": 32, "num_res_blocks": 1, "channel_mult": "1",
             "attention_resolutions": "", "num_head_channels": 32 } }
J
unet=$GOLDEN/unet_skip_stage.config.json
kd-init guided.json --to kdiff -o x.safetensors; echo $?
for wrapper in v eps vd; do kd-init "$unet" --wrap $wrapper --to kdiff -o x.safetensors; echo $?; done
kd-init "$unet" --wrap v -o v.safetensors
kd-init --from v.safetensors --to kdiff -o x.safetensors; echo $?
[ ! -e x.safetensors ] || echo something was written
kd-init --from v.safetensors --wrap karras --to kdiff -o x.safetensors && kd-info x.safetensors | sed -n 2,4p
kd-init "$unet" --to kdiff --dtype bf16 -o x.safetensors && kd-info x.safetensors | sed -n 2,4p
rm guided.json [vx].safetensors
