# Features of CLIP and DINOv2: from the file as it is published and from kd-init's, by name from $KD_HOME; what is not known or not there.
# timeout: 300
kd-prep -q --no-history --size 8 $GOLDEN/prep/images/*.png --limit 5 >images
kd-init -q --from $GOLDEN/dinov2_small.pth -o dinov2.st
kd-init -q --from $GOLDEN/clip_small.pt --activation gelu -o clip.st
kd-init -q --from $GOLDEN/clip_small.pt --activation quick_gelu -o clip_quick.st
kd-fid -q --features $GOLDEN/dinov2_small.pth --write-ref ref --keep-features --no-history images
kd-info ref | grep -E 'kind|extractor|resizer|feature|mu_s'
kd-fid -q --features dinov2.st ref images -m fid,precision -k 2 >text; sed 1d text
awk '/^fid/ { exit !($2 < 1e-6 && $2 > -1e-6) }' text; echo "self: $?"
kd-fid -q --features dinov2.st ref images -m fid --resize torch; echo "exit $?"
kd-fid -q --features clip.st ref images -m fid; echo "exit $?"
kd-fid -q --features clip.st --write-ref clip_ref images
kd-fid -q --features clip_quick.st clip_ref images; echo "exit $?"
kd-fid -q --features clip_quick.st images images -m sfid; echo "exit $?"
kd-fid -q --features clip_quick.st images images -m is; echo "exit $?"
kd-fid -q --features $GOLDEN/clip_small.pt images images 2>&1; echo "exit $?"
kd-fid -q --features $GOLDEN/v2_global.weights.safetensors images images 2>&1; echo "exit $?"
unset KD_HOME
kd-fid --features clip-vit-l-14 images images; echo "exit $?"
mkdir home
export KD_HOME=$PWD/home
KD_HOME=home kd-fid --features dinov2-vits14 images images; echo "exit $?"
cp dinov2.st home/dinov2-vits14.safetensors
KD_HOME=home kd-fid --features dinov2-vits14 images images; echo "exit $?"
rm home/*; cp $GOLDEN/dinov2_small.pth home/dinov2_vitb14_pretrain.pth
KD_HOME=home kd-fid --features dinov2-vitb14 images images; echo "exit $?"
