# Where a plug-in is looked for: in the program's folder, then in ../lib/kd, or only in $KD_PLUGINS. All copies have the wrong
# version, so the error names the file that was found.
unset KD_PLUGINS
mkdir -p opt/bin opt/lib/kd elsewhere
cp "$(command -v kd-fid)" opt/bin
cp "$BUILD/tests/device/abi.so" opt/bin/kd-here.so
cp "$BUILD/tests/device/abi.so" opt/lib/kd/kd-here.so
cp "$BUILD/tests/device/abi.so" opt/lib/kd/kd-there.so
cp "$BUILD/tests/device/abi.so" elsewhere/kd-there.so
kd-prep -q "$GOLDEN/prep/images/odd_32x33.png" --size 8 -o images
t() { "$@" 2>&1 | sed -E 's/version [0-9]+/version N/g'; }
features="opt/bin/kd-fid --features random --write-ref r images --device"
t $features here
t $features there
t $features nowhere
KD_PLUGINS=elsewhere t $features there
KD_PLUGINS=elsewhere t $features here

# A device is opened only if there are images.
d=$BUILD/tests/device/fails.so F=$GOLDEN/fid.safetensors
$features "$d"; echo "exit $?"
$features "$d:1"; echo "exit $?"
kd-fid -q --device "$d" -m fid "$F:d8.x" "$F:d8.x" >scores; echo "exit $?"
ls
