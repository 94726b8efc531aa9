# Valid frames of another program: empty and scalar tensors, a padded header; as a file and through a pipe.
cd "$GOLDEN/bad" || exit
for f in good_*.safetensors; do
    kd-info --stats "$f"
    cmp <(kd-info --stats - <"$f" | tail -n +2) <(kd-info --stats "$f" | tail -n +2)
    cmp <(cat "$f" | kd-info --stats - | tail -n +2) <(kd-info --stats "$f" | tail -n +2)
done
