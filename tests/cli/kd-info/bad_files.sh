# Every damaged or hostile file: one line that says what is wrong with it, exit status 3.
cd "$GOLDEN/bad" || exit
for f in *.safetensors; do
    case $f in good_*) continue ;; esac
    kd-info "$f" 2>&1
    echo "  exit $?"
done
