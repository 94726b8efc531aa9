# A bad file is named with the reason and skipped; the counts add up; with --strict it is the end.
i=$GOLDEN/prep/images
mkdir imgs
cp $i/odd_32x33.png imgs/a_good.png
head -c 1000 $i/disc_70x91.png >imgs/cut.png
head -c 1000 $i/jpeg444_47x53.jpg >imgs/cut.jpg
{ head -c 18 $i/odd_32x33.png; printf X; tail -c +20 $i/odd_32x33.png; } >imgs/flipped.png
: >imgs/empty.png
echo '<html>404</html>' >imgs/page.jpg
cp $i/bmp_39x33.bmp imgs/old.bmp
ln -s nowhere imgs/lost.png
mkfifo imgs/pipe
kd-prep imgs --report r >out.st
echo "exit $?"
cat r
kd-prep imgs --strict >strict.st
code=$?
kd-prep imgs -o file.st --strict
ls
exit $code
