# --labels dir: the folders below the sources are the classes, in byte order, the same names being the same class.
i=$GOLDEN/prep/images
mkdir -p one/dog/deep one/Cat one/empty one/.git two/dog two/ant
cp $i/odd_32x33.png one/dog/deep/a.png
cp $i/odd_32x33.png one/Cat/a.png
cp $i/odd_32x33.png one/loose.png
cp $i/odd_32x33.png two/ant/a.png
cp $i/odd_32x33.png two/dog/a.png
kd-prep --labels dir one two --report r -o out.st
cat r
tail -c 32 out.st | od -An -w32 -td8
grep -ao 'class_names.*empty' out.st | tr -d ' \\"'
kd-prep --labels dir one/dog/deep; echo "exit $?"
# Labels on some images only do not make a record.
printf '\0\0\10\3\0\0\0\1\0\0\0\41\0\0\0\40' >t-images-idx3
head -c 1056 /dev/zero >>t-images-idx3
printf '\0\0\10\1\0\0\0\1\7' >t-labels-idx1
kd-prep t-images-idx3 one/loose.png -o out.st; echo "exit $?"
kd-prep --channels 3 t-images-idx3 one/loose.png -o out.st; echo "exit $?"
kd-prep --channels 3 one/loose.png t-images-idx3 -o out.st; echo "exit $?"
kd-prep --channels 3 --labels none t-images-idx3 one/loose.png -o out.st; echo "exit $?"
