#!/bin/bash
# What a reader relies on in every file: plain text, files one can read at a sitting, documented headers, a man page for
# each tool and a page for each format.
set -u
bad=0
# complain MESSAGE: reports each line on stdin
complain() { local line; while IFS= read -r line; do echo "$line: $1"; bad=1; done; }
say() { complain "$2" < <(printf '%s' "${1:+$1$'\n'}"); }

mapfile -t text < <(
    find . \( -name .git -o -name 'build*' -o -path ./tests/golden -o -path ./tests/fuzz/corpus \) -prune -o -type f \
        \( -name '*.[ch1]' -o -name '*.cu' -o -name '*.def' -o -name '*.md' -o -name '*.sh' -o -name '*.bash' \
        -o -name '*.txt' -o -name Makefile -o -name '*.mk' -o -path './.ci/*' -o -path ./tests/run \) -print |
        sed 's|^\./||' | sort)
mapfile -t code < <(printf '%s\n' "${text[@]}" | grep -E '\.([ch]|cu|sh)$|^tests/run$')

say "$(grep -nE '[[:space:]]$' "${text[@]}" | cut -d: -f1,2)" "space at the end of a line"
say "$(grep -lP '\r' "${text[@]}")" "carriage return"
say "$(grep -nP '\t' "${code[@]}" | cut -d: -f1,2)" "tab"
for f in "${text[@]}"; do
    if [ -s "$f" ] && [ "$(tail -c 1 "$f" | wc -l)" -eq 0 ]; then say "$f" "no newline at the end"; fi
done
for f in "${code[@]}"; do
    if [ "$(wc -l <"$f")" -gt 800 ]; then say "$f" "more than 800 lines"; fi
    say "$(awk 'length > 140 { print FILENAME ":" FNR }' "$f")" "line longer than 140 characters"
done

# Notes to oneself belong to the issue tracker, paths of one machine nowhere.
say "$(grep -nE '\.\./shared|/work/|\b(TODO|FIXME|XXX)\b' "${text[@]}" | grep -v '^tests/lint/')" "forbidden word"

# A paragraph of a header that declares a public function says something about it.
say "$(awk '
    function flush() { if (name != "" && !said) print file ":" at ": " name; name = ""; said = 0 }
    FNR == 1 { flush(); file = FILENAME }
    /^$/ { flush(); next }
    /\/\// { said = 1 }
    /^[a-z].*[ *]kd_[a-z0-9_]+\(/ && !/^(typedef|static)/ && name == "" {
        name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); at = FNR
    }
    END { flush() }' lib/*/*.h formats/*.h)" "public function without a comment"

for f in tools/kd-*.c; do
    if [ ! -e "$f" ]; then continue; fi               # no tool at all: the pattern itself
    tool=$(basename "$f" .c)
    if [ ! -e "tools/$tool.1" ]; then say "$f" "no man page tools/$tool.1"; fi
    if ! grep -q "^| \`$tool" README.md; then say "$f" "not in the table of README.md"; fi
    if ! grep -qw -e "$tool" tools/kd.bash; then say "$f" "not in tools/kd.bash"; fi
done
# png.c writes somebody else's format, info.c reads all of ours. images_write.c is a part of images.
for f in formats/*.c; do
    page=${f%.c}
    if [ -e "$f" ] && [ ! -e "${page%%_*}.md" ] && [[ $f != formats/@(png|info).c ]]; then say "$f" "no page ${page%%_*}.md"; fi
done
exit $bad
