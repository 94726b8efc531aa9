# A folder is read in the order of path components, byte by byte; files are judged by content; each has a line in the report.
i=$GOLDEN/prep/images
mkdir -p imgs/b/deep imgs/a imgs/.hidden
cp $i/odd_32x33.png imgs/b/deep/x.txt           # a PNG by content
cp $i/jpeg444_47x53.jpg imgs/b.jpg
cp $i/gray_60x40.png imgs/b/z
cp $i/palette_trns_66x50.png imgs/a/B.png
cp $i/rgb16_40x48.png imgs/a/a.png
cp $i/jpeg_exif6_64x40.jpg imgs/C.jpg
cp $i/jpeg_cmyk_48x48.jpg imgs/c.jpg
cp $i/wide_64x20.png imgs/.hidden/w.png
echo Desktop >imgs/.DS_Store
echo hello >imgs/README.txt
cp $i/webp_lossless_42x35.webp imgs/w.png
kd-prep imgs --size 32 --report report.jsonl -o out.st
cat report.jsonl
