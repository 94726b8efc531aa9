# Links to files and folders are followed; a link that leads back up is not entered, and both are told.
mkdir -p imgs/sub other
cp $GOLDEN/prep/images/odd_32x33.png other/x.png
ln -s ../../other imgs/sub/there
ln -s .. imgs/sub/up
ln -s ../other/x.png imgs/file.png
kd-prep imgs --report r -o out.st
cat r
