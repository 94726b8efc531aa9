#!/bin/bash
# Log-likelihoods of the last 500 digits, and of the same pixels in another order: by the golden model, and by one that is trained
# here on the other 4,500. Run in an empty folder, with the tools on PATH and ROOT the repository:
#   mkdir /tmp/l && cd /tmp/l && ROOT=~/kd PATH=~/kd/build:$PATH bash ~/kd/tests/slow/loglik.sh [STEPS]
set -u
. "$ROOT/tests/cli/kd-loglik/shuffle.bash"
digits=$ROOT/examples/data/mnist5k
bad=0
both() # MODEL PIXELS IMAGES
{
    shuffled "$3" 500 "$2" >shuffled.st
    for images in "$3" shuffled.st; do
        echo "$images:"
        kd-loglik --rtol 1e-2 --atol 1e-2 -o "$images.nats" "$1" "$images"
    done
    paste <(nats "$3.nats") <(nats shuffled.st.nats) |
        awk '{ better += $1 > $2 } END { print better " of " NR " better"; exit better < 500 }' || bad=1
}
kd-prep -q "$digits" --skip 4500 -o digits28.st
both "$ROOT/tests/golden/digits_run/digits.fp16.safetensors" 784 digits28.st
kd-prep -q "$digits" --size 14 --limit 4500 |
    kd-train -q -c "$ROOT/examples/digits/demo.json" -b 32 --steps "${1:-3400}" --name run --resume auto -o model.st
kd-prep -q "$digits" --size 14 --skip 4500 -o digits14.st
both model.st 196 digits14.st
exit $bad
