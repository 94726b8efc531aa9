# --profile prints a table on stderr and leaves stdout to the model.
. $ROOT/tests/cli/kd-train/setup.bash
digits 10
config c.json
kd-train -q -c c.json -b 2 --steps 2 d.st --profile >m.st 2>err
kd-info m.st >/dev/null && echo a model
grep -qw linear err && grep -qw attention err && echo a table
