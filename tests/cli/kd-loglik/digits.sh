# Real digits score better than the same pixels in another order; the same bytes whatever the batch and the threads; what is
# written.
# timeout: 600
. "$ROOT/tests/cli/kd-loglik/shuffle.bash"
model=$GOLDEN/digits_run/digits.fp16.safetensors
score() { kd-loglik -q --no-history --rtol 1e-3 --atol 1e-3 "$@"; }
kd-prep -q --no-history "$ROOT/examples/data/mnist5k" --skip 4997 -o digits.st
shuffled digits.st 3 784 >shuffled.st
score "$model" digits.st -o a.st && kd-info a.st | grep -v bytes
score "$model" shuffled.st -o b.st
paste <(nats a.st) <(nats b.st) | awk '{ print ($1 > $2 + 500) ? "a digit" : "no better" }'

for batch in 1 2; do score -b $batch --threads $((4 - batch)) "$model" <digits.st | cmp - a.st && echo "batch $batch: equal"; done
score -n 2 "$model" digits.st >two.st
cmp <(nats two.st) <(nats a.st | head -n 2) && echo "the first two"
score -n 2 --seed 1 "$model" digits.st | cmp -s - two.st || echo "another seed, other probes"
score -n 2 --probes 3 --class 3 --dequantize none "$model" digits.st | kd-info - | grep 'nats\|probes\|dequantized'
score -n 0 "$model" digits.st | kd-info - | grep nats
kd-loglik --no-history -n 1 --rtol 1e-2 --atol 1e-2 -o x.st "$model" digits.st
