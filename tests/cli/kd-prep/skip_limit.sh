# --skip and --limit count good images in order; together they part the images.
printf '\0\0\10\3\0\0\0\5\0\0\0\1\0\0\0\2aabbccddee' >digits
show() { tail -c $1 out.st; echo; }
mkdir imgs
cp $GOLDEN/prep/images/odd_32x33.png imgs/1.png
echo bad >imgs/2.png
cp $GOLDEN/prep/images/wide_64x20.png imgs/3.png
cp $GOLDEN/prep/images/wide_64x20.png imgs/4.png
kd-prep digits --limit 2 -o out.st 2>/dev/null; show 4
kd-prep digits --skip 2 -o out.st 2>/dev/null; show 6
kd-prep digits --skip 1 -n 3 --report r -o out.st 2>/dev/null; show 6
cat r
kd-prep imgs --skip 1 --report r -o out.st; echo "exit $?"
cat r
kd-prep imgs --limit 1 --report r -o out.st; echo "exit $?"
cat r
kd-prep imgs --skip 3; echo "exit $?"
