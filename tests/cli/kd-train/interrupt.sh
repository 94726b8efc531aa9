# Ctrl-C and SIGTERM finish the step, save it, and say so with their exit code; nothing is lost.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json "${everything[@]}"
for signal in INT TERM; do
    kd-train -c c.json d.st -b 4 --name $signal --log-every 1000000 >out 2>err &
    until grep -q step ${signal}_log.jsonl 2>/dev/null; do sleep 0.02; done
    kill -$signal $!
    wait $!
    echo "exit $?"
    wc -c <out
    last=$(tail -n 1 ${signal}_log.jsonl | sed 's/.*"step": \([0-9]*\),.*/\1/')
    file=$(printf '%s_%08d.safetensors' $signal "$last")
    ls $signal*.safetensors | grep -vx "$file"
    sed "s/$file/FILE/; s/step $last/step N/" err
    kd-train -q d.st --name $signal --resume auto --steps $((last + 3)) -o /dev/null
    kd-train -q -c c.json d.st -b 4 --name whole-$signal --steps $((last + 3)) -o /dev/null
    cmp $(printf '%s_%08d.safetensors' $signal $((last + 3))) $(printf 'whole-%s_%08d.safetensors' $signal $((last + 3)))
done
# While it waits for data.
mkfifo pipe
sleep 100 >pipe &
kd-train -c c.json --name waiting <pipe >out 2>err &
sleep 0.3
kill -INT $!
wait $!
echo "exit $?"
cat err
kill %?sleep
wait 2>/dev/null
ls waiting* 2>/dev/null
exit 0
