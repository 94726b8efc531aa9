# The bytes written and the report do not depend on the number of threads.
kd-prep -q $GOLDEN/prep/images --size 24x40 --no-history --threads 1 --report r1 >one
for t in 2 3 8; do
    kd-prep -q $GOLDEN/prep/images --size 24x40 --no-history --threads $t --report r >out && cmp one out && cmp r1 r && echo same
done
