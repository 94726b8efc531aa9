# The same seed gives the same bytes, to a file and to a pipe; another seed others.
config=$GOLDEN/v2_shifted_window.config.json
kd-init "$config" --seed 5 --no-history -o a.safetensors
kd-init "$config" --seed 5 --no-history >b.safetensors
kd-init "$config" --seed 6 --no-history -o c.safetensors
kd-init "$config" --no-history -o d.safetensors
kd-init "$config" --no-history --seed 0 -o e.safetensors
cmp a.safetensors b.safetensors && echo same
cmp -s a.safetensors c.safetensors || echo other
cmp d.safetensors e.safetensors && echo seed 0 is the default
# a model file is a config too
kd-init a.safetensors --seed 5 --no-history | cmp - a.safetensors && echo again
