# The models that k-diffusion's converter wrote.
cd "$GOLDEN" || exit
for f in checkpoints/kdiff_inference.*.safetensors digits_run/digits.fp16.safetensors; do
    kd-info "$f" | head -n 8
done
kd-info --stats checkpoints/kdiff_inference.fp32.safetensors
kd-info --config digits_run/digits.fp16.safetensors
