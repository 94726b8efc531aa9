# CIFAR-10's binary version: label, red plane, green plane, blue plane. Class names are known.
record() { printf "\\$1"; for c in $2 $3 $4; do head -c 1024 /dev/zero | tr '\0' "$c"; done; }
mkdir batches
{ record 3 r g b; record 11 R G B; } >batches/data_batch_1.bin
record 0 x y z >batches/test_batch.bin
echo airplane >batches/batches.meta.txt
kd-prep batches --report r -o out.st
cat r
tail -c 24 out.st | od -An -td8
tail -c $((3 * 3072 + 24)) out.st | head -c 6; echo
grep -ao 'airplane.*truck' out.st | tr -d ' \\"'
# Not CIFAR-10: another length, a label that is none.
head -c 6000 batches/data_batch_1.bin >bad.bin; kd-prep bad.bin; echo "exit $?"
{ record 3 r g b; record 12 R G B; } >bad.bin; kd-prep bad.bin; echo "exit $?"
gzip -c batches/data_batch_1.bin | head -c 60 >bad.bin.gz; kd-prep bad.bin.gz; echo "exit $?"
head -c 6000 batches/data_batch_1.bin | gzip >bad.bin.gz; kd-prep bad.bin.gz; echo "exit $?"
