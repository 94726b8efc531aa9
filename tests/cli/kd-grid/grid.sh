# The grid's shape and pixels: four 3x2 grey images, black to light.
printf '\0\0\10\3\0\0\0\5\0\0\0\2\0\0\0\3' >d
for v in 000 040 100 200 300; do printf "\\$v%.0s" 1 2 3 4 5 6 >>d; done
kd-prep -q d -o d.st 2>/dev/null
show() { # FILE: width x height, then grey levels
    kd-prep -q --no-history --channels 1 $1 -o x.st
    od -An -tu4 -N8 --endian=big -j16 $1
    set -- $(od -An -tu4 -N8 --endian=big -j16 $1)
    tail -c $(($1 * $2)) x.st | od -An -v -w$1 -tu1
}
kd-grid d.st >g.png; show g.png
kd-grid d.st --pad 0 -c 5 -o g.png; show g.png
kd-grid d.st --rows 5 --pad 1 -o g.png; show g.png
kd-grid d.st --rows 1 --cols 2 --pad 0 -o g.png; show g.png
kd-grid d.st --limit 1 --scale 2 -o g.png; show g.png
cat d.st | kd-grid --rows 2 --pad 0 -o g.png; show g.png
kd-grid - --limit 2 --cols 1 --pad 0 <d.st >g.png; show g.png
