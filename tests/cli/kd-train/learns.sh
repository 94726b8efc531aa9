# A small model learns: the running loss falls below what knowing only the mean and spread of the pixels gives.
. $ROOT/tests/cli/kd-train/setup.bash
digits 500
config c.json
kd-train -q -c c.json d.st -b 16 --steps 300 --log log --name x -o m.st
awk -F '[:,]' '/"step": (1|300),/ { print $2, ($6 < ($2 == 1 ? 10 : 0.16)) ? "low" : "high: " $6 }' log
kd-info m.st >/dev/null && echo a model
