# A resumed run takes each setting that its bits depend on from the checkpoint; each that is given and differs is said and logged.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
t() { kd-train --no-history -b 4 -o /dev/null "$@" 2>&1 | grep -vE 'images of|saved|resuming'; echo "exit ${PIPESTATUS[0]}"; }
cat >unet.json <<'J'
{ "model": { "type": "image_v1", "input_channels": 1, "input_size": [14, 14], "mapping_out": 16, "depths": [1], "channels": [8],
             "self_attn_depths": [false], "has_variance": true, "sigma_data": 2, "sigma_min": 0.02, "sigma_max": 80,
             "sigma_sample_density": {"type": "lognormal", "mean": 5, "std": 0.1} },
  "optimizer": {"lr": 3e-2, "weight_decay": 0} }
J
# A likelihood's loss may be below 0.
kd-prep -q --no-history "$mnist" --size 14 --limit 1 --labels none -o one.st
t -q -c unet.json one.st --name v --steps 40
tail -n 1 v_log.jsonl | grep -oE '"ema_loss": -'
t one.st --name v --steps 41 --resume auto
sed -e 's/"mean": 5/"mean": 4/' -e 's/"sigma_min": 0.02, "sigma_max": 80/"sigma_min": 0.03, "sigma_max": 70, "dropout_rate": 0.1/' \
    -e 's/"has_variance": true/"has_variance": true, "augment_prob": 0.1, "loss_weighting": "snr", "loss_scales": 2/' unet.json >u2.json
t -q -c u2.json one.st --name v --steps 42 --resume auto
grep -o '"note.*' v_log.jsonl
# Each key of a transformer's config.
config c.json
t -c c.json d.st --name r --steps 1
config all.json "${everything[@]}" '"cond_dropout_rate": 0.1' '"cond_dropout_rate": 0.2' '"loss_config": "karras"' \
    '"loss_config": "simple"' '"loss_weighting": "soft-min-snr"' '"loss_weighting": "karras"' '"type": "cosine-interpolated"' \
    '"type": "loguniform"' '"lr": 3e-3' '"lr": 2e-3' '[0.9, 0.95]' '[0.8, 0.9]' '1e-8' '1e-7' '"weight_decay": 1e-4' \
    '"weight_decay": 1e-3' '"warmup": 0.9' '"warmup": 0.8' '0.75' '0.7'
t -c all.json d.st --name r --steps 2 --resume auto --seed 0 -b 5 --accum 2 --clip 2 --gns
grep -c note r_log.jsonl
t -c all.json d.st --name r --steps 3 --resume auto
# What the network is may not change.
for change in '"sigma_data": 0.5' '"sigma_data": 0.55, "has_variance": 0, "augment_wrapper": true'; do
    config other.json '"sigma_data": 0.55' "$change"
    t -q -c other.json d.st --name r --steps 4 --resume auto
done
# The gradient noise scale.
t d.st --name r --steps 4 --resume auto --accum 1
t d.st --name r --steps 4 --resume auto --no-gns
t d.st --name r --steps 5 --resume auto
t -c c.json d.st --name n --steps 1 --no-gns
t -c c.json d.st --name n --steps 1 --gns --no-gns --accum 2
