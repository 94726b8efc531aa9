# What comes out and under which names; stdin; calls in batches give the same bytes. The numbers are checked by the unit test
# golden_v2, which runs the tool too.
model=$GOLDEN/v2_none_mapcond.weights.safetensors
io=$GOLDEN/v2_none_mapcond.io.safetensors
kd-denoise --no-history "$model" "$io" >plain; echo "$?"
kd-denoise --no-history "$model" <"$io" | cmp - plain && echo stdin
kd-denoise --no-history - "$io" <"$model" | cmp - plain && echo model from stdin
kd-denoise --no-history --batch 1 --threads 3 "$model" "$io" | cmp - plain && echo batch
kd-denoise --no-history -o file "$model" "$io" && cmp file plain && echo file
kd-denoise --no-history --loss --vjp "$model" "$io" >all
kd-denoise --no-history --loss --vjp --batch 1 --threads 3 "$model" "$io" | cmp - all && echo batch of all
kd-denoise --loss --grad --vjp "$model" "$io" >all
head -c 8000 all | grep -ao '"kd":"[^"]*"\|"model":"[^"]*"\|"kd_history":"kd-denoise'
head -c 8000 all | grep -ao '"[a-z_0-9.]*":{"dtype":"F32","shape":\[[0-9,]*\]'
big=$GOLDEN/v2_neighborhood_k3
kd-denoise --grad "$big.weights.safetensors" "$big.io.safetensors" | head -c 10 >/dev/null      # gradients of 430 KB
echo "${PIPESTATUS[0]}"
