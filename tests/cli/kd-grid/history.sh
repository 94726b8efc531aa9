# A stream's history goes into the PNG, ours behind it; --no-history leaves ours out.
cp "$GOLDEN/prep/images/odd_32x33.png" in.png
kd-prep -q in.png -o one
kd-grid one -o g.png
grep -aoE 'kd-(prep|grid) [^{]*' g.png | tr -d '\0' | sed "s/png.*/png/"
