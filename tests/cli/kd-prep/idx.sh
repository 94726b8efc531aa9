# MNIST IDX, plain and gzip: grey unless told, labels from the file beside it.
printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3abcdefABCDEF' >t-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\2\7\1' >t-labels-idx1-ubyte
show() { tail -c $(($1 + 16)) $2 | head -c $1; echo; tail -c 16 $2 | od -An -td8; }
kd-prep t-images-idx3-ubyte -o a.st && show 12 a.st
mkdir packed && gzip -c t-images-idx3-ubyte >packed/t-images-idx3-ubyte.gz && gzip -c t-labels-idx1-ubyte >packed/t-labels-idx1-ubyte.gz
kd-prep packed --report r -o b.st && show 12 b.st
cat r
gunzip packed/t-labels-idx1-ubyte.gz
kd-prep packed/t-images-idx3-ubyte.gz -o b.st && show 12 b.st
kd-prep --channels 3 packed -o b.st && show 36 b.st
kd-prep --labels none -q packed -o b.st && tail -c 12 b.st && echo
rm packed/*labels*
kd-prep packed/t-images-idx3-ubyte.gz --report r -o b.st && tail -c 12 b.st && echo
cat r
cp t-images-idx3-ubyte digits
kd-prep digits -o b.st
kd-prep t-labels-idx1-ubyte
echo "exit $?"
kd-prep --labels none - <t-images-idx3-ubyte -o b.st && tail -c 12 b.st && echo
