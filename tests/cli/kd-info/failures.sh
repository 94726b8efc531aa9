# Allocation number n fails, for every n (above 200, every 23rd); write number n likewise: an error each time, and no output
# file or leftover.
good=$GOLDEN/checkpoints/kdiff_inference.bf16.safetensors
fail() # HOOK LEAST
{
    local n=0 status=1
    while [ $status -ne 0 ]; do
        n=$((n + (n < 200 ? 1 : 23)))
        rm -f out.json
        env "$1=$n" kd-info --json --stats -o out.json "$good" 2>err
        status=$?
        if [ $status -eq 0 ]; then break; fi
        if [ $status -ne 1 ] || [ "$(wc -l <err)" -ne 1 ] || [ "$(ls -A)" != err ]; then
            echo "$1=$n: exit $status: $(cat err): $(ls -A)"
            return
        fi
    done
    kd-info --json --stats "$good" | cmp - out.json
    if [ $n -lt "$2" ]; then echo "$1 failed nothing: $n"; else echo "$1: every failure was told"; fi
}
fail KD_FAIL_ALLOC 100
fail KD_FAIL_WRITE 3
