# Training, sampling, likelihoods and gradients on a device that works late and has its own memory (tests/device/late.c): all files
# are the same as the CPU's.
# timeout: 600
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json "${everything[@]}"
config hot.json '"lr": 3e-3' '"lr": 1e30'
kd-prep -q --no-history "$mnist" --size 14 --limit 5 -o few.st
work() # DEVICE PREFIX
{
    kd-train -q -c c.json --steps 4 -b 4 --accum 2 --gns --demo-every 2 --demo-n 3 --save-every 2 \
        --eval-ref few.st --features random --eval-every 4 --eval-n 3 --metrics fid --no-history --name "$2" --device "$1" -o "$2.st" d.st
    kd-train -q --resume "$2_00000002.safetensors" --steps 3 --checkpointing --no-history --force --name "$2r" --device "$1" \
        -o "$2r.st" d.st
    for accum in 1 2; do             # the loss becomes NaN, which a device that works late reports several steps later
        kd-train -q -c hot.json --steps 20 -b 4 --accum $accum --no-history --name "$2h$accum" --device "$1" d.st 2>"$2.hot$accum"
        echo "exit $?" >>"$2.hot$accum"
    done
    for sampler in dpmpp_2m dpmpp_2m_sde dpmpp_3m_sde dpmpp_sde dpmpp_2s_ancestral euler euler_ancestral heun dpm_2 dpm_2_ancestral \
        dpm_fast ddim ddpm lms; do
        kd-sample -q --no-history -n 3 -b 2 --steps 5 --sampler $sampler --device "$1" cpu.st -o "$2.$sampler"
    done
    kd-sample -q --no-history -n 3 --sampler dpm_adaptive --device "$1" cpu.st -o "$2.dpm_adaptive"
    kd-sample -q --no-history --steps 5 --cfg 2 --threshold static --from few.st --mask few.st --device "$1" cpu.st -o "$2.masked"
    kd-sample -q --no-history -n 2 --steps 5 --cfg 0 --threshold dynamic --trajectory --device "$1" cpu.st -o "$2.trajectory"
    kd-sample -q --no-history -n 2 --steps 5 --sampler heun --s-churn 3 --guide cpu.st --cfg 1.5 --device "$1" cpu.st -o "$2.guided"
    kd-fid --features random --metrics fid --device "$1" few.st cpu.heun -o "$2.fid"
    for model in v2_global v2_shifted_window_mid unet_full v1t_classes; do
        kd-denoise -q --no-history --loss --grad --vjp --device "$1" "$GOLDEN/$model.weights.safetensors" "$GOLDEN/$model.io.safetensors" \
            -o "$2.$model"
    done
    kd-loglik -q --no-history --device "$1" cpu.st few.st -o "$2.loglik"
}
work cpu cpu
cat cpu.hot?
for which in '' :plain; do
    mkdir there
    work "$BUILD/late.so$which" there/cpu
    for file in cpu*; do
        case $file in                # without their times
        *.jsonl) cmp <(steps_of "$file") <(steps_of "there/$file") ;;
        *.csv)   cmp <(cut -d, -f1,3- "$file") <(cut -d, -f1,3- "there/$file") ;;
        *)       cmp "$file" "there/$file" ;;
        esac || echo "late.so$which: $file differs"
    done
    ls there | wc -l
    rm -r there
done
# Ctrl-C while steps are queued: the step under way is the last, and all before it are logged.
kd-train -q -c c.json --steps 7 -b 4 --no-history --name end -o /dev/null d.st
KD_LATE_SIGNAL=7 kd-train -q -c c.json --steps 20 -b 4 --no-history --name cut --device "$BUILD/late.so" d.st
echo "exit $?"
cmp cut_00000007.safetensors end_00000007.safetensors
cmp <(steps_of cut_log.jsonl) <(steps_of end_log.jsonl)
ls
