# Float images: 0 is 127.5, rounded up or cut off; what lies outside [-1, 1] is clamped.
printf '\101\0\0\0\0\0\0\0%-65s\0\0\0\0\0\0\0\100\0\0\0\300' \
    '{"image":{"dtype":"F32","shape":[1,1,3,1],"data_offsets":[0,12]}}' >f
for q in round trunc; do
    kd-grid f --quantize $q -o g.png && kd-prep -q --channels 1 g.png -o x && tail -c 3 x | od -An -tu1
done
