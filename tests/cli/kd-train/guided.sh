# guided_diffusion with classes and a learned variance, and transformer v1: trained, resumed, sampled from.
. "$ROOT/tests/cli/kd-train/setup.bash"
kd-prep -q --no-history "$mnist" --size 16 --channels 3 --limit 12 -o d.st
cat >guided.json <<'J'
{ "model": { "type": "guided_diffusion", "image_size": 16, "num_channels": 32, "num_res_blocks": 1, "channel_mult": "1,2",
             "attention_resolutions": "8", "num_head_channels": 32, "class_cond": true, "learn_sigma": true, "dropout": 0.1 },
  "dataset": { "num_classes": 10 } }
J
sed 's/"num_classes": 3/"num_classes": 10/; s/^            24$/            16/' "$GOLDEN/v1t_classes.config.json" >v1.json
for name in guided v1; do
    kd-train -q -c $name.json --name $name --steps 4 --batch 3 --no-history d.st -o $name.st
    kd-train -q -c $name.json --name half --steps 2 --batch 3 --no-history d.st -o half.st
    kd-train -q --resume half_00000002.safetensors --name half --steps 4 --no-history d.st -o half.st
    same $name.st half.st
    kd-sample -q -n 3 -s 2 --class 1,2 $name.st | kd-info - | grep '^ *image'
    rm half*
done
grep -c '"loss": [0-9]' guided_log.jsonl
kd-sample -n 1 --class none guided.st
kd-sample -n 1 --cfg 2 guided.st
kd-sample -q -n 1 -s 1 --class none v1.st | kd-info - | grep '^ *image'
