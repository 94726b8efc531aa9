#!/bin/bash
# A man page and its tool agree: the page names every option that the tool has, and none that no tool has.
# tests/lint/man.sh BUILD
set -u
bad=0
complain() { echo "$1"; bad=1; }
plain() { sed 's/\\-/-/g; s/\\f[A-Z]//g' "$1"; }          # roff's dashes and fonts undone
options() { "$1" --complete | cut -f 1 | grep -vxE -e "-h|--help|--version"; }      # these go without saying

known=$(printf '%s\n' --help --version
    for f in tools/kd-*.c; do if [ -e "$f" ]; then options "$1/$(basename "$f" .c)"; fi; done)
for f in tools/kd-*.1; do
    if [ ! -e "$f" ]; then continue; fi
    tool=$(basename "$f" .1)
    for option in $(options "$1/$tool"); do
        plain "$f" | grep -qE -e "(^|[^a-z-])$option([^a-z-]|$)" || complain "$f: does not name $option"
    done
    for option in $(plain "$f" | grep -oE -e '(^|[^a-z-])--[a-z][a-z-]*[a-z]' | grep -oE -e '--.*' | sort -u); do
        grep -qFx -e "$option" <<<"$known" || complain "$f: no tool has $option"
    done
    "$1/$tool" --version >/dev/null || complain "$tool --version fails"
done
exit $bad
