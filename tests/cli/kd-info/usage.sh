kd-info; echo "exit $?"
kd-info --jsn x; echo "exit $?"
kd-info nowhere.st; echo "exit $?"
kd-info .; echo "exit $?"
kd-info a b; echo "exit $?"
kd-info - </dev/null; echo "exit $?"
kd-info "$GOLDEN/bad/good_small.safetensors" >/dev/full; echo "exit $?"
(sleep 0.3; exec kd-info "$GOLDEN/digits_run/digits.fp16.safetensors") | head -n 0; echo "exit ${PIPESTATUS[0]}"
kd-info "$GOLDEN/bad/good_small.safetensors" -o out.txt; echo "exit $?"
head -n 3 out.txt | tail -n 2
kd-info "$GOLDEN/bad/good_small.safetensors" -o nowhere/out.txt; echo "exit $?"
kd-info --help
