# --size, --crop, --resize: the pixels are those that the unit tests compare with Pillow's; here, that each option arrives.
i=$GOLDEN/prep/images
h=--no-history
for f in bicubic lanczos box bilinear; do kd-prep -q $h --size 32 --resize $f $i/disc_70x91.png -o $f.st; done
kd-prep -q $h -s 32 $i/disc_70x91.png -o default.st
kd-prep -q $h -s 32x32 $i/disc_70x91.png --crop center -o square.st
cmp bicubic.st default.st && cmp bicubic.st square.st && echo defaults
for f in lanczos box bilinear; do tail -c 3072 $f.st >$f.raw; tail -c 3072 bicubic.st | cmp -s - $f.raw || echo $f differs; done
kd-prep -s 48x16 $i/disc_70x91.png --report r -o wide.st; cat r
kd-prep -s 48x16 --crop none $i/disc_70x91.png --report r -o stretched.st; cat r
cmp -s wide.st stretched.st || echo stretched differs
grep -aoE '"(resizer|crop|background)": ?"[^"]*"' stretched.st box.st | tr -d ' ' | sort
kd-prep $i/disc_70x91.png --report r -o as_is.st; cat r
