# A process that is refused has changed nothing: while another trains the run, whatever log it writes, and whoever asked.
. $ROOT/tests/cli/kd-train/setup.bash
digits 20
config c.json
t() { kd-train -q --no-history -b 4 -o /dev/null "$@"; echo "exit $?"; }
t -c c.json d.st --name r --steps 2
echo half >.r_00000003.safetensors.abcdef
printf '{"step": 3, "loss"' >>r_log.jsonl
all() { ls -A; cat .r_* r*; }
refused() { all >before; "$@"; all >after; same before after; }
touch before after
exec 9<>r_log.jsonl
flock 9
refused t d.st --name r --steps 4 --resume auto
refused t -c c.json d.st --name r --steps 4 --force
refused t -c c.json d.st --name other --steps 4 --log r_log.jsonl
exec 9<&-
# Another log, and none that is a file.
touch .r.lock
exec 9<>.r.lock
flock 9
refused t d.st --name r --steps 4 --resume auto
refused t d.st --name r --steps 4 --resume auto --log new.jsonl
refused t d.st --name r --steps 4 --resume auto --log /dev/null
exec 9<&-
# Nor has one that is refused for another reason.
rm .r.lock
digits 19 && mv d.st d19.st && digits 20
refused t d19.st --name r --steps 4 --resume auto
refused t -c nowhere.json d.st --name r --steps 4 --resume auto
refused t -c nowhere.json d.st --name fresh --steps 4
# Two at once, the first in the middle of a step.
kd-train -q --no-history d.st --name r --resume auto 2>/dev/null --save-every 1 --keep 2 -o /dev/null &
until [[ $(ls | grep "^r_.*safetensors$" | tail -n 1) > r_00000005.safetensors ]]; do sleep 0.02; done
for i in 1 2 3 4 5 6 7 8; do kd-train -q d.st --name r --resume auto -o /dev/null 2>>err; echo "exit $?" >>err; done
kill -INT $!
wait $! 2>/dev/null
echo "exit $?"
sort err | uniq -c | sed 's/^ *//'
ls -A | grep '^\.' || echo nothing half written
