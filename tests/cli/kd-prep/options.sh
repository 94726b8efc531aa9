# Wrong options are exit 2, with what was expected.
i=$GOLDEN/prep/images/odd_32x33.png
for bad in --size=0 --size=32x --size=x32 --size=32x32x32 --size=16385 --size=-1 --size=1e2 --size= --crop=left --resize=nearest \
    --channels=2 --labels=file --skip=-1 --limit=0 --sise=32; do
    kd-prep $i $bad; echo "exit $?"
done
kd-prep $i -o nowhere/out.st; echo "exit $?"
kd-prep $i --report nowhere/r; echo "exit $?"
kd-prep $i --report - ; echo "exit $?"
kd-prep -q $i --report - -o out.st | sed 's|".*/|".../|'
