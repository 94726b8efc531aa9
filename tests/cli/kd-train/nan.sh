# A loss that is not a number: the step is named, exit 1, and the last good checkpoint is untouched.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
kd-train -q -c c.json d.st -b 4 --steps 5 --name r -o /dev/null
cp r_00000005.safetensors good
config hot.json '"lr": 3e-3' '"lr": 1e30'
kd-train -q -c hot.json d.st --resume auto --name r --save-every 1 --steps 50 >out 2>err
echo "exit $?"
sed -E 's/step [0-9]+/step N/; s/is (NaN|infinite|not finite)/is bad/; s/loss is/it is/; s/the gradient is/it is/; s/r_[0-9]+/r_N/' err
same good r_00000005.safetensors
wc -c <out
# Every checkpoint that is there is whole and holds numbers.
kd-train -q -c hot.json d.st --steps 3 --name s -b 4 >out 2>err; echo "exit $?"
ls s_*.safetensors 2>/dev/null
exit 0
