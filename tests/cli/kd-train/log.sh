# The log: a line a step, valid JSON, its keys; past the checkpoint it is cut on resuming, a half line too.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
kd-train -c c.json d.st -b 4 --steps 12 --save-every 5 --keep 9 --log-every 5 --name r -o /dev/null 2>err
sed -E 's/[0-9]+\.[0-9]+/X/g; s/[0-9.]+ images/X images/; s/left .*/left X/' err
wc -l <r_log.jsonl
head -n 1 r_log.jsonl | sed -E 's/: [0-9][-+.e0-9]*/: X/g'
rm r_00000012.safetensors
printf '{"step": 13, "loss"' >>r_log.jsonl
cp r_log.jsonl before
kd-train -q d.st --resume auto --name r --steps 10 -o /dev/null
cmp <(head -n 10 before) r_log.jsonl && echo cut
kd-train -q d.st --resume auto --name r --steps 12 -o /dev/null
cmp <(head -n 12 before | sed 's/, "images.*//') <(sed 's/, "images.*//' r_log.jsonl) && echo repeated
# Time goes on where it stood.
awk -F '"elapsed": ' '{ if ($2 + 0 < last) print "back at", NR; last = $2 + 0 }' r_log.jsonl
# Somewhere else; not a file; another process has it.
kd-train -q -c c.json d.st -b 4 --steps 2 --name s --log /dev/stderr -o /dev/null 2>&1 | cut -c 1-10
kd-train -q -c c.json d.st -b 4 --steps 2 --name s2 --log nowhere/log -o /dev/null; echo "exit $?"
(
    exec 9<>r_log.jsonl
    flock 9
    kd-train -q d.st --resume auto --name r --steps 13 -o /dev/null
    echo "exit $?"
)
