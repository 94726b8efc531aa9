# k-diffusion's networks in each wrapper: trained, sampled from, scored, called. What such a training cannot have is refused.
. "$ROOT/tests/cli/kd-train/setup.bash"
kd-prep -q --no-history "$mnist" --size 16 --limit 8 -o d.st
cat >v2.json <<'J'
{ "model": { "type": "image_transformer_v2", "input_channels": 1, "input_size": [16, 16], "patch_size": [4, 4], "depths": [1],
             "widths": [32], "d_ffs": [32], "self_attns": [{"type": "global", "d_head": 16}], "mapping_width": 16, "mapping_depth": 1,
             "mapping_d_ff": 16, "sigma_min": 0.02, "sigma_max": 80 } }
J
cat >v1.json <<'J'
{ "model": { "type": "image_transformer_v1", "input_channels": 1, "input_size": [16, 16], "patch_size": [4, 4], "depth": 1,
             "width": 64, "sigma_min": 0.02, "sigma_max": 80 } }
J
cat >unet.json <<'J'
{ "model": { "type": "image_v1", "input_channels": 1, "input_size": [16, 16], "mapping_out": 16, "depths": [1, 1],
             "channels": [32, 32], "self_attn_depths": [false, true], "augment_prob": 0.5, "sigma_min": 0.02, "sigma_max": 80 } }
J
density='"sigma_sample_density": {"type": "cosine-interpolated"}'
for name in v2 v1 unet; do
    for wrapper in '"v", '"$density" '"eps"' '"vd", "quantize": true, "noise_schedule": "cosine", "diffusion_steps": 100'; do
        sed "s/\"model\": {/& \"wrapper\": $wrapper,/" $name.json >c.json
        kd-train -q -c c.json --name run --force --steps 3 --batch 4 --no-history d.st -o m.st
        [ "$(grep -c '"loss": [0-9]' run_log.jsonl)" = 3 ] || echo "no losses"
        kd-sample -q -n 2 --batch 1 -s 3 --seed 4 --no-history m.st >a.st
        kd-sample -q -n 2 --batch 2 -s 3 --seed 4 --no-history --threads 2 m.st | cmp - a.st
        kd-loglik -q -n 1 --rtol 0.1 --atol 0.1 m.st d.st | kd-info - | grep -c '^ *nats'
    done
    kd-sample -q -n 1 --schedule model -s 4 m.st | kd-info - | grep '^ *image'
done
train() { sed "s/\"model\": {/& $1,/" unet.json >c.json; kd-train -q -c c.json --name run --force --steps 1 d.st; echo $?; }
train '"wrapper": "eps", "loss_weighting": "snr"'
train '"wrapper": "eps", "has_variance": true'
train '"wrapper": "v", "noise_schedule": "linear"'
train '"wrapper": "v"'
rm *.json ?.st run_*
