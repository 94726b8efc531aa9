# A file that is not a log is refused as it is: on starting, on resuming, in its middle.
. $ROOT/tests/cli/kd-train/setup.bash
digits 20
config c.json
t() { kd-train -q --no-history -b 4 -o /dev/null "$@"; echo "exit $?"; }
t -c c.json d.st --name r --steps 4 --save-every 2
cp r_log.jsonl good
printf 'Dear diary,\ntoday\n' >diary
printf '{"step": 1, "text": "of something else"}\n' >other.jsonl
printf '7' >short
head -c 100 /dev/zero >zeros
cp -r . ../files
for log in diary other.jsonl short zeros; do
    t d.st --name r --resume auto --steps 5 --log $log
    t d.st --name s --resume r_00000004.safetensors --steps 5 --log $log
    t -c c.json d.st --name s --steps 5 --log $log --force
done
# Its own, with a line of somebody else's among those that are to stay.
sed -i '2i Dear diary' r_log.jsonl
cp r_log.jsonl ../files
t d.st --name r --resume auto --steps 5
diff -r . ../files && echo nothing changed
# What was not on the disk at the checkpoint may be anything.
{ cat good; printf '\0\0\0\0\n'; head -n 1 good; } >r_log.jsonl
t d.st --name r --resume auto --steps 5
sed 's/,.*//' r_log.jsonl
