# A name with a line break, quotes, or bytes that are no UTF-8.
mkdir imgs
cp $GOLDEN/prep/images/odd_32x33.png $'imgs/a\nb".png'
cp $GOLDEN/prep/images/odd_32x33.png $'imgs/\xff\xc3\xa9.png'
echo x >$'imgs/c\e[31m.png'
kd-prep imgs --report r -o out.st
cat r
