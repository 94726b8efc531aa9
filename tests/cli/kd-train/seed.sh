# The largest seed is a seed like any other, and one that is not given comes from the checkpoint.
. $ROOT/tests/cli/kd-train/setup.bash
digits 10
config c.json
t() { kd-train -q --no-history -b 2 d.st "$@" --name r -o m.st && kd-info m.st | grep kd_seed; }
t -c c.json --steps 1 --seed 18446744073709551615
t --resume auto --steps 2
t --resume auto --steps 3 --seed 0
t -c c.json --steps 1 --force
