# What does not fit a checkpoint is refused; what may differ is taken, said and logged; a damaged one falls back.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
t() { kd-train --no-history "$@" -o /dev/null; echo "exit $?"; }
t -q -c c.json d.st -b 4 --steps 4 --save-every 2 --name r
# Files are there already, whatever is left of them.
t -c c.json d.st --steps 4 --name r
rm r_log.jsonl
t -c c.json d.st --steps 4 --name r
# Another model, other data, another seed.
config wide.json '"d_ffs": [64]' '"d_ffs": [48]'
t -q -c wide.json d.st --resume auto --name r --steps 6
mv d.st d40.st
digits 39
t -q d.st --resume auto --name r --steps 6
t -q d40.st --resume auto --name r --steps 6 --seed 3
# Another rate and batch.
t d40.st --resume r_00000004.safetensors --name q --steps 5 --lr 1e-3 -b 5 2>&1
grep note q_log.jsonl
config lr.json '"lr": 3e-3' '"lr": 2e-3'
t -c lr.json d40.st --resume auto --name q --steps 6 2>&1
t d40.st --resume auto --name q --steps 7 2>&1
sed -n 's/.*"step": \([0-9]*\),.*"lr": \([^,]*\),.*/\1 \2/p' q_log.jsonl
# A damaged checkpoint: the one before it is taken; no whole one: said.
printf X | dd of=r_00000004.safetensors bs=1 seek=300000 conv=notrunc 2>/dev/null
t d40.st --resume auto --name r --steps 3 2>&1 | sed 's/checksum is .*: the file/checksum: the file/'
t -q d40.st --resume r_00000004.safetensors --name r --steps 3 2>&1 | sed 's/checksum is .*: the file/checksum: the file/'
for f in r_*.safetensors; do head -c 1000 $f >cut; mv cut $f; done
t d40.st --resume auto --name r --steps 3
# Nothing there yet.
t d40.st --resume auto --name new --steps 1
t -q -c c.json d40.st --resume auto --name new --steps 1
ls new*
