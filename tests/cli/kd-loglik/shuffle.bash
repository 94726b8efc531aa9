# For tests that score digits beside the same pixels in another order.
length() { od -An -tu8 -N8 "$1" | tr -d ' '; }
# nats FILE: of each image of a loglik/1 file
nats()
{
    local n
    n=$(tail -c +9 "$1" | head -c "$(length "$1")" | grep -ao '"nats":{"dtype":"F64","shape":\[[0-9]*' | grep -o '[0-9]*$')
    tail -c +$((9 + $(length "$1"))) "$1" | head -c $((8 * n)) | od -An -v -w8 -tf8
}

# shuffled FILE N PIXELS: the file of N 8-bit images with the pixels of each in one random order
shuffled()
{
    local head=$((8 + $(length "$1")))
    head -c $head "$1" | sed 's/,"kd_xxh3":"[0-9a-f]*"/                             /'
    printf "$(tail -c +$((1 + head)) "$1" | head -c $(($2 * $3)) | od -An -v -w1 -to1 | awk -v size="$3" '
        BEGIN { s = 20; for (i = 0; i < size; i++) from[i] = i
                for (i = size - 1; i > 0; i--) { s = s * 16807 % 2147483647; k = s % (i + 1); t = from[i]; from[i] = from[k]; from[k] = t } }
        { pixel[n++] = $1 }
        n == size { for (i = 0; i < size; i++) printf "\\%03d", pixel[from[i]]; n = 0 }')"
    tail -c +$((1 + head + $2 * $3)) "$1"
}
