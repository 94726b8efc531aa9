# What kd-prep writes, kd-grid --each writes as PNG, and kd-prep reads again: the same stream.
kd-prep -q --no-history --size 20x30 $GOLDEN/prep/images -o a.st
kd-grid --each p%03d.png a.st
mkdir out && mv p*.png out
kd-prep -q --no-history out -o b.st
n=$(ls out | wc -l)
tail -c $((n * 1800)) a.st >a; tail -c $((n * 1800)) b.st | cmp - a && echo same
