# Memory that runs out at any allocation ends an import with exit 1 and one line, and leaves nothing.
try()
{
    for n in $(seq 1 "$1") $(seq "$1" 61 "$2"); do
        KD_FAIL_ALLOC=$n "${@:3}" >out 2>err
        echo "$? $(wc -l <err) $([ -s out ] && echo some)"
    done | sort | uniq -c | awk '{ print $2, $3, $4 }'
}
try 150 1400 kd-init --from "$GOLDEN/checkpoints/kdiff_train.pth" --to checkpoint
try 60 300 kd-init --from "$GOLDEN/bad/good_small.pth"
try 90 90 kd-info "$GOLDEN/guided_tiny.legacy.pt"
try 90 90 kd-info "$GOLDEN/guided_tiny.seed.bin"
ls
