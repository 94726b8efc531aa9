# A disk that fills up while a checkpoint is written, at each of its writes: exit 1, and the one before stays until a whole
# one is there. timeout: 300
. $ROOT/tests/cli/kd-train/setup.bash
digits 10
config c.json
t() { kd-train -q --no-history -c c.json -b 2 --save-every 1 --keep 1 --name r d.st -o /dev/null "$@"; }
t --steps 1
cp r_00000001.safetensors one; cp r_log.jsonl log
t --steps 2 --resume auto
cp r_00000002.safetensors two
for ((i = 1; i < 60; i++)); do
    rm -f r_*; cp one r_00000001.safetensors; cp log r_log.jsonl
    KD_FAIL_WRITE=$i t --steps 2 --resume auto 2>err
    case $? in
        0) break ;;
        1) if [ -e r_00000002.safetensors ]; then cmp two r_00000002.safetensors; else cmp one r_00000001.safetensors; fi
           grep -c 'No space left' err >/dev/null || cat err ;;
        *) echo "failure $i: exit $?"; cat err ;;
    esac
    ls -A | grep '^\.'
    t --steps 2 --resume auto; cmp two r_00000002.safetensors
done
[ $i -gt 3 ] && [ $i -lt 60 ] && echo all writes
