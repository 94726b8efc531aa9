# Memory that runs out at any moment is exit 1 and a sentence, never a crash, and leaves no half written file. timeout: 600
. $ROOT/tests/cli/kd-train/setup.bash
digits 10
config c.json
for ((i = 1; i < 100000; i += i < 100 ? 3 : 97)); do
    rm -f r_*
    KD_FAIL_ALLOC=$i kd-train -q -c c.json d.st -b 2 --steps 2 --save-every 1 --demo-every 2 --demo-n 2 --name r -o m.st 2>err
    code=$?
    [ $code -eq 0 ] && break
    [ $code -eq 1 ] && grep -q 'out of memory' err || { echo "allocation $i: exit $code"; head -n 20 err; }
    ls -A | grep '^\.'
done
[ $i -gt 1000 ] && echo all allocations
