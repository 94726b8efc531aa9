# Sets of images that were made differently are not compared, wherever the difference is known: in streams, in any of their records, in
# features and in statistics. What is known of one side only is no difference.
# timeout: 600
i=$GOLDEN/prep/images/odd_32x33.png
prep() { kd-prep -q --no-history --labels none --size 8x6 "$i" "$i" "$@"; }
prep -o base
prep --resize lanczos -o lanczos
prep --crop none -o stretched
prep --background black -o black
. "$ROOT/tests/cli/kd-sample/toy.bash"
for k in {1..144}; do printf "$(number 0.25)"; done | toy 0.5 3,6,8 toy.st
kd-sample -q --no-history toy.st -n 2 --steps 1 -o round
kd-sample -q --no-history toy.st -n 2 --steps 1 --quantize trunc -o trunc
fid() { kd-fid -q --features random -m fid "$@" >text; echo "$*: exit $?"; grep -h 'note' text; }
for other in lanczos stretched black; do fid base $other; done
fid round trunc
fid base round
fid base trunc
kd-fid -q --features random --no-history --write-ref stats black
kd-fid -q --features random --no-history --write-ref features --keep-features stretched
kd-info stats | grep images_
kd-info features | grep images_
fid stats base
fid base features
kd-fid -q -m fid features stats --force >text; grep note text
sed -n '/^reference/p' text
# A stream of two records, the first of which is right; its second says the rest, or nothing.
cat base lanczos | fid base -
cat base lanczos | fid - base
cat base base | fid base -
cat round lanczos | fid base -
cat round base | fid base -
cat base lanczos | kd-fid -q --features random --write-ref mixed; echo "exit $?"; ls mixed
cat base lanczos | kd-fid -q --features random --force --write-ref mixed; echo "exit $?"
fid mixed base
fid mixed base --force
kd-fid -q mixed mixed -m fid --json | grep -o '"images_[a-z]*": "[^"]*"' | sort -u
# Files from before these keys: nothing is known.
h='{"__metadata__":{"kd":"stats/1","n":"9","images_resizer":"bicubic"},"mu":{"dtype":"F64","shape":[2048],"data_offsets":[0,16384]},'
h+='"cov":{"dtype":"F64","shape":[2048,2048],"data_offsets":[16384,33570816]}}'
{ printf "\\x$(printf %02x $((${#h} % 256)))\\0\\0\\0\\0\\0\\0\\0%s" "$h"; head -c 33570816 /dev/zero; } >old
fid old black
