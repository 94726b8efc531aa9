# The same through a pipe, whose length is not known ahead.
for f in "$GOLDEN"/bad/*.safetensors; do
    case $f in */good_*) continue ;; esac
    echo "$(basename "$f")"
    cat "$f" | kd-info - 2>&1
    echo "  exit $?"
done
