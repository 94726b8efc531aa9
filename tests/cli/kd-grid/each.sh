# --each: a file an image; the pattern is checked.
printf '\0\0\10\3\0\0\0\3\0\0\0\1\0\0\0\1abc' >d
kd-prep -q --labels none d -o d.st
kd-grid d.st --each 'a_%d.png'
kd-grid d.st --each 'b_%03d_50%%.png' --limit 2
kd-grid d.st --each 'c%3d' -n 1
ls -1
for f in a_*.png; do kd-prep -q --channels 1 $f -o x.st && tail -c 1 x.st; done; echo
for bad in out.png out_%s.png out_%d_%d.png out_%n.png out_%-5d.png out_%05 out_% %05ld.png out_%99d.png; do
    kd-grid d.st --each "$bad"; echo "exit $?"
done
kd-grid d.st --each 'nowhere/%d.png'; echo "exit $?"
kd-grid d.st --each '%d.png' --cols 2; echo "exit $?"
kd-grid d.st --each '%d.png' -o x.png; echo "exit $?"
kd-grid d.st --each '%d.png' --pad 0; echo "exit $?"
