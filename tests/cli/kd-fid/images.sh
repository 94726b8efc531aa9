# Images through the network with weights by the rule: any order of arrival and batch, grey and colour, a reference of another
# network or resizer, a stream that is cut short.
# timeout: 900
kd-prep -q --size 8 $GOLDEN/prep/images/odd_32x33.png $GOLDEN/prep/images/odd_32x33.png $GOLDEN/prep/images/odd_32x33.png -o same
kd-prep -q --no-history --size 8 $GOLDEN/prep/images/*.png --limit 5 >images
fid="kd-fid -q --features random"
$fid --write-ref ref --keep-features --no-history -b 3 images
$fid --write-ref again --keep-features --no-history -b 2 images; cmp ref again; echo "another batch: $?"; rm again
kd-info ref | grep -E 'extractor|resizer|feature|mu_s'
$fid ref images -b 4 -m fid,sfid --bootstrap 2 | awk '$1 ~ /fid/ { exit !($2 < 1e-6 && $2 > -1e-6) }'; echo "self: $?"
$fid ref same -m fid >text; grep -c 'random features' text; grep -v 'random features' text
head -c 1200 images | $fid ref; echo "exit $?"
$fid ref same --resize torch; echo "exit $?"
$fid ref same --features nowhere; echo "exit $?"
unset KD_HOME
kd-fid ref same; echo "exit $?"
kd-fid --features $GOLDEN/v2_global.weights.safetensors ref same 2>&1
kd-prep -q --size 8 $GOLDEN/prep/images/odd_32x33.png | $fid ref; echo "exit $?"
ls
