kd-info --json --stats "$GOLDEN/bad/good_small.safetensors" | sed 's|"file": ".*"|"file": ""|'
