# Float images with a pixel that is no finite number: each tool that reads images says which, in one line, and writes nothing.
. "$ROOT/tests/cli/kd-sample/toy.bash"
for i in {1..12}; do printf "$(number 0.25)"; done | toy 0.5 3,2,2 toy.st
images() # PIXEL: three images, of which the second has it
{
    local h='{"__metadata__":{"kd":"images/1"},"image":{"dtype":"F32","shape":[3,2,2,3],"data_offsets":[0,144]}}' i
    printf "\\x$(printf %02x ${#h})\0\0\0\0\0\0\0%s" "$h"
    for i in {0..35}; do if [ "$i" = 17 ]; then printf "$1"; else printf "$(number 0.5)"; fi; done
}
images '\0\0\300\177' >nan
images '\0\0\200\377' >infinite
for bad in nan infinite; do
    try() { "$@" >got; echo "$1 $bad $? $(wc -c <got)"; rm got; }
    try kd-loglik -q toy.st $bad
    try kd-fid -q --features random $bad $bad
    try kd-fid -q --features random --write-ref ref $bad
    try kd-grid $bad
    try kd-sample -q toy.st --from $bad --sigma 1 --steps 3
    try kd-sample -q toy.st --from $bad --invert --steps 3
    try kd-sample -q toy.st --init $bad:image --steps 3
    try kd-train -q -c "$ROOT/tests/cli/kd-train/small.json" $bad --steps 1
    kd-info -s $bad | grep '^images'
done
ls
