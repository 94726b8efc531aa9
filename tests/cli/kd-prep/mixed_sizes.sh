# Without --size all pictures must have one size; the first that differs is named.
mkdir imgs
cp $GOLDEN/prep/images/{odd_32x33,wide_64x20}.png imgs
cp imgs/odd_32x33.png imgs/first.png
kd-prep imgs -o out.st
code=$?
ls
exit $code
