# --wrap changes how a network becomes a denoiser, where it can.
cat >guided.json <<'J'
{ "model": { "type": "guided_diffusion", "image_size": 16, "num_channels": 32, "num_res_blocks": 1, "channel_mult": "1",
             "attention_resolutions": "", "num_head_channels": 32 } }
J
wrapper() { kd-info --config "$1" | grep '"wrapper"'; }
kd-init guided.json -o a.safetensors && wrapper a.safetensors
kd-init --from a.safetensors --wrap vd -o b.safetensors && wrapper b.safetensors
kd-init "$GOLDEN/unet_skip_stage.config.json" --wrap v -o c.safetensors && wrapper c.safetensors
kd-init --from c.safetensors --wrap eps -o d.safetensors && wrapper d.safetensors
sed 's/"model": {/&"wrapper": "eps", "noise_schedule": "cosine", "quantize": true,/
     s/"snr"/"karras"/; s/"loss_scales": 2/"loss_scales": 1/' "$GOLDEN/unet_skip_stage.config.json" >eps.json
kd-init eps.json --wrap vd | kd-info --config - | grep 'wrapper"\|schedule\|quantize'
kd-init eps.json --wrap v | kd-info --config - | grep 'wrapper"\|schedule\|quantize'     # there are no steps
# guided_diffusion has its levels from its steps; a wrapper without steps takes those at their ends, unless the config says some
levels() { kd-info --config "$1" | grep 'wrapper"\|"sigma_m\|schedule\|"steps"'; }
kd-init --from a.safetensors --wrap karras -o e.safetensors && levels e.safetensors
kd-init guided.json --wrap v -o f.safetensors && levels f.safetensors
sed 's/"model": {/&"sigma_min": 0.02, "sigma_sample_density": {"type": "steps"},/' guided.json >own.json
kd-init own.json --wrap v -o f.safetensors && levels f.safetensors
kd-init --from f.safetensors --wrap karras -o f.safetensors && levels f.safetensors
kd-sample e.safetensors -n 1 --steps 2 -q -o images.safetensors && kd-info images.safetensors | grep sigma
sed 's/"model": {/&"learn_sigma": true,/' guided.json >learned.json
kd-init learned.json --wrap v; echo $?
kd-init --from "$GOLDEN/checkpoints/kdiff_train.pth" --wrap karras --to checkpoint; echo $?
kd-init "$GOLDEN/unet_skip_stage.config.json" --wrap edm; echo $?
rm guided.json eps.json own.json learned.json images.safetensors [abcdef].safetensors
