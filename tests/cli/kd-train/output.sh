# What goes to standard output is there or it is said why not; where a model would go, no text does.
. $ROOT/tests/cli/kd-train/setup.bash
digits 20
config c.json
kd-train -c c.json d.st --plan >/dev/full; echo "exit $?"
kd-train -c c.json d.st --plan >&-; echo "exit $?"
kd-train -q -c c.json -b 4 d.st --steps 1 -o m.st; echo "exit $?"
cp m.st before
kd-train -q -c c.json d.st --plan -o m.st | head -n 1
kd-train -q --resume model_00000001.safetensors --eval-only --eval-ref d.st --features random -o m.st; echo "exit $?"
same m.st before
