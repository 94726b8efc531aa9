# Twenty bad files are named; of more, the report tells.
mkdir imgs
for n in $(seq -w 1 25); do echo $n >imgs/$n; done
cp $GOLDEN/prep/images/odd_32x33.png imgs
kd-prep imgs --report r >out.st
grep -c not r
