# The gradient noise scale goes on after resuming; it needs batches to compare.
. $ROOT/tests/cli/kd-train/setup.bash
digits 60
config c.json
t() { kd-train -q --no-history -b 4 -o /dev/null "$@" d.st; echo "exit $?"; }
t -c c.json --name whole --steps 6 --accum 3 --gns
t -c c.json --name half --steps 3 --accum 3 --gns
t --resume auto --name half --steps 6                    # it is not given again
same whole_00000006.safetensors half_00000006.safetensors
same <(steps_of whole_log.jsonl) <(steps_of half_log.jsonl) | sed 's/ .*//'
grep -cE '"gns": [0-9.e+-]+, "images_per_s"' half_log.jsonl
t -c c.json --name plain --steps 6 --accum 3
grep -c gns plain_log.jsonl
t -c c.json --name one --steps 1 --gns
