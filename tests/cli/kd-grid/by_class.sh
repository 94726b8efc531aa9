# --by-class: one row a class; within a row the stream's order; a shorter row is filled up with white.
printf '\0\0\10\3\0\0\0\5\0\0\0\1\0\0\0\1abcde' >x-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\5\7\2\7\2\7' >x-labels-idx1-ubyte
kd-prep -q x-images-idx3-ubyte -o d.st
kd-grid d.st --by-class --pad 0 -o g.png
kd-prep -q --no-history --channels 1 g.png -o x.st && tail -c 6 x.st | od -An -tc
kd-grid d.st --by-class --cols 2; echo "exit $?"
kd-grid d.st --by-class --each '%d.png'; echo "exit $?"
kd-prep -q --labels none x-images-idx3-ubyte -o bare.st
kd-grid bare.st --by-class; echo "exit $?"
