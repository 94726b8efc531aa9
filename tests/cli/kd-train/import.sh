# Training goes on from k-diffusion's checkpoint under its config's schedules; stopped and resumed it ends in the same bytes.
kd-prep -q "$GOLDEN/checkpoints/kdiff_train_images" --size 16 -o images.safetensors
kd-init -q --from "$GOLDEN/checkpoints/kdiff_train.pth" --batch 4 -o imported.safetensors
go() { kd-train -q --no-history images.safetensors "$@" >model.safetensors; echo $?; }
go --resume imported.safetensors --steps 7 --name whole
go --resume imported.safetensors --steps 5 --name first
go --resume first_00000005.safetensors --steps 7 --name first
cmp whole_00000007.safetensors first_00000007.safetensors && echo the same bytes
kd-info whole_00000007.safetensors | grep -E 'kd_(step|seen|lr_step|ema_step|opt_step|batch|accum)'
grep -o '"step": *[0-9]*\|"lr": *[0-9.e-]*' whole_log.jsonl
kd-init --from whole_00000007.safetensors --to kdiff | kd-info - | sed -n '2,5p'
