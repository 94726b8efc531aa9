# PyTorch's pickles are named as what they are, and nothing in them runs.
cp "$GOLDEN"/bad/*.pth .
for f in *.pth; do
    kd-info "$f" 2>&1
    echo "  exit $?"
done
ls pwned 2>/dev/null
