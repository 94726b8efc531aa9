# Training checkpoints of each of k-diffusion's networks: training goes on from the next step, under their own config.
kd-prep -q "$GOLDEN/checkpoints/kdiff_train_images" --size 8 --channels 1 -o images.safetensors
for name in unet_adamw unet_sgd v1_adamw; do
    echo "$name"
    kd-init --from "$GOLDEN/checkpoints/kdiff_$name.pth" --batch 2 --no-history -o "$name.safetensors"
    kd-train -q --resume "$name.safetensors" --steps 5 --name "$name" --no-history images.safetensors >model.safetensors
    kd-info "${name}_00000005.safetensors" | grep -E 'kd_(step|seen|lr_step|ema_step|opt_step|batch|accum)'
done
# Without a config its network is guessed, but not how it was trained: a model, unless --config says the rest.
old=$GOLDEN/checkpoints/kdiff_no_config.pth
kd-init --from "$old" --no-history -o old.safetensors
kd-info old.safetensors | sed -n '2p'
kd-init -q --from "$old" --no-history | cmp - old.safetensors && echo the same, quietly
kd-init --from "$old" --to checkpoint; echo $?
kd-init -q --from "$GOLDEN/checkpoints/kdiff_unet_adamw.pth" --weights ema --no-history -o ema.safetensors
kd-init -q --from "$old" --config ema.safetensors --to kdiff --dtype fp32 >kdiff.safetensors
kd-init --from ema.safetensors --to kdiff --dtype fp32 | cmp - kdiff.safetensors && echo its average
kd-init -q --from "$old" --config ema.safetensors --batch 2 --no-history | cmp - unet_adamw.safetensors && echo the same checkpoint
