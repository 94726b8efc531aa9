# --background and --channels.
i=$GOLDEN/prep/images
p() { kd-prep -q --no-history $i/"$@"; }
p rgba_45x45.png -o white.st
p rgba_45x45.png --background '#FFFFFF' -o a.st; cmp white.st a.st
p rgba_45x45.png --background 255 -o a.st; cmp white.st a.st
p rgba_45x45.png --background black -o black.st
p rgba_45x45.png --background 0 -o a.st; cmp black.st a.st
cmp -s white.st black.st || echo black is not white
p gray_alpha_40x40.png --background '#102030' --channels 1 -o a.st; wc -c <a.st
grep -ao '#102030' a.st
p gray_60x40.png -o colour.st
p gray_60x40.png --channels 3 -o a.st; cmp colour.st a.st
p gray_60x40.png --channels 1 -o grey.st
[ $(($(wc -c <colour.st) - $(wc -c <grey.st))) -eq 4800 ] && echo a third
kd-prep -q --channels 1 $i/rgb16_40x48.png --report r -o a.st; cat r
for bad in red '#12345' '#12345g' 256 -1 ''; do p rgba_45x45.png --background "$bad"; echo "exit $?"; done
