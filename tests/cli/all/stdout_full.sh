# What a tool prints for a person and cannot write is an error with a sentence, for every tool.
for tool in $(cd "$BUILD" && ls kd-* | grep -v '\.'); do
    for option in --help --version --complete; do
        "$tool" $option >/dev/full; echo "$tool $option $?"
    done
done 2>&1
kd-sample --list >/dev/full; echo "--list $?"
kd-sample --list >&-; echo "--list $?"
kd-train -q -c "$ROOT/tests/cli/kd-train/small.json" --plan </dev/null >/dev/full; echo "--plan $?"
