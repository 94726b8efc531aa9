# Digits score better than the same pixels in another order; the same bytes whatever the batch and the threads; what is written.
# timeout: 600
model=$GOLDEN/digits_run/digits.fp16.safetensors
length() { od -An -tu8 -N8 "$1" | tr -d ' '; }
score() { kd-loglik -q --no-history --rtol 1e-3 --atol 1e-3 "$@"; }
kd-sample -q --no-history -n 3 --steps 12 -o digits.st "$model"

# The same pixels, every 283rd of them in turn.
head=$((8 + $(length digits.st)))
{ head -c $head digits.st | sed 's/,"kd_xxh3":"[0-9a-f]*"/                             /'
  for k in 0 1 2; do
      bytes=$(tail -c +$((1 + head + 784 * k)) digits.st | head -c 784 | od -An -v -w1 -to1 | awk '
          { pixel[NR - 1] = $1 } END { for (i = 0; i < 784; i++) printf "\\%03d", pixel[i * 283 % 784] }')
      printf "$bytes"
  done
  tail -c +$((1 + head + 784 * 3)) digits.st; } >shuffled.st
score "$model" digits.st -o a.st && kd-info a.st | grep -v bytes
score "$model" shuffled.st -o b.st
nats() { tail -c +$((9 + $(length "$1"))) "$1" | head -c 24 | od -An -v -w8 -tf8; }
paste <(nats a.st) <(nats b.st) | awk '{ print ($1 > $2 + 500) ? "a digit" : "no better" }'

for batch in 1 2; do score -b $batch --threads $((4 - batch)) "$model" <digits.st | cmp - a.st && echo "batch $batch: equal"; done
score -n 2 "$model" digits.st >two.st
cmp <(nats two.st | head -n 2) <(nats a.st | head -n 2) && echo "the first two"
score -n 2 --seed 1 "$model" digits.st | cmp -s - two.st || echo "another seed, other probes"
score -n 2 --probes 3 --class 3 --dequantize none "$model" digits.st | kd-info - | grep 'nats\|probes\|dequantized'
score -n 0 "$model" digits.st | kd-info - | grep nats
kd-loglik --no-history -n 1 --rtol 1e-2 --atol 1e-2 -o x.st "$model" digits.st
