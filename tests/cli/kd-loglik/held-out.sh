# Digits that a model was not trained on, those after the first 4,500, score better than the same pixels in another order, each of
# them, already after a short training. tests/slow/loglik.sh has all 500, and a whole training.
# timeout: 600
. "$ROOT/tests/cli/kd-loglik/shuffle.bash"
digits=$ROOT/examples/data/mnist5k
kd-prep -q --no-history "$digits" --size 14 --limit 4500 |
    kd-train -q -c "$ROOT/examples/digits/demo.json" -b 32 --steps 80 --name run -o model.st
kd-prep -q --no-history "$digits" --size 14 --skip 4500 --limit 10 -o digits.st
shuffled digits.st 10 196 >shuffled.st
score() { kd-loglik -q --rtol 1e-2 --atol 1e-2 --threads 2 model.st "$@"; }
score digits.st -o a.st
score shuffled.st -o b.st
paste <(nats a.st) <(nats b.st) | awk '{ better += $1 > $2 } END { print better " of " NR " better" }'
