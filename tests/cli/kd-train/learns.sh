# A small model learns: the running loss falls to a third of what the first weights, which answer zero, give.
. $ROOT/tests/cli/kd-train/setup.bash
digits 500
config c.json
kd-train -q -c c.json d.st -b 16 --steps 150 --log log --name x -o m.st
awk -F '[:,]' '/"step": 1,/ { print ($6 > 0.2 ? "high" : "low: " $6) } /"step": 150,/ { print ($6 < 0.085 ? "low" : "high: " $6) }' log
kd-info m.st >/dev/null && echo a model
