# Whichever allocation or write fails: exit 1 with a sentence, no output file.
i=$GOLDEN/prep/images
mkdir -p imgs/a
cp $i/rgba_45x45.png $i/jpeg_exif6_64x40.jpg imgs/a
printf '\0\0\10\3\0\0\0\3\0\0\0\2\0\0\0\2aaaabbbbcccc' | gzip >t-images-idx3.gz
printf '\0\0\10\1\0\0\0\3\1\2\3' >t-labels-idx1
each() { # VARIABLE COMMAND...: fails the first, second, ... until the command goes through
    local n code
    for n in $(seq 1 999); do
        env "$1=$n" "${@:2}" -o out.st >stdout 2>stderr
        code=$?
        [ $code = 0 ] && break
        [ $code = 1 ] && [ "$(wc -l <stderr)" = 1 ] && [ ! -s stdout ] && [ ! -e out.st ] || { echo "$1=$n: exit $code"; cat stderr; }
    done
    [ $n -gt 3 ] && [ $n -lt 999 ] && echo "$1 done"
    rm -f out.st
}
each KD_FAIL_ALLOC kd-prep --labels dir --size 8 imgs --report r
each KD_FAIL_ALLOC kd-prep t-images-idx3.gz
each KD_FAIL_WRITE kd-prep --size 8 imgs --report r
kd-prep -q t-images-idx3.gz -o in
each KD_FAIL_ALLOC kd-grid in
each KD_FAIL_WRITE kd-grid in
