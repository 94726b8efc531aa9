# Training checkpoints of each of k-diffusion's networks: training goes on from the next step, under their own config.
kd-prep -q "$GOLDEN/checkpoints/kdiff_train_images" --size 8 --channels 1 -o images.safetensors
for name in unet_adamw unet_sgd v1_adamw; do
    echo "$name"
    kd-init --from "$GOLDEN/checkpoints/kdiff_$name.pth" --batch 2 --no-history -o "$name.safetensors"
    kd-train -q --resume "$name.safetensors" --steps 5 --name "$name" --no-history images.safetensors >model.safetensors
    kd-info "${name}_00000005.safetensors" | grep -E 'kd_(step|seen|lr_step|ema_step|opt_step|batch|accum)'
done
