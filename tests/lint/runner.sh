#!/bin/bash
# The runner itself: a program that fails, dies, hangs or says too little must be counted as failed.
# timeout: 100
set -u
here=$PWD
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root" || exit 1
mkdir -p tests/unit tests/op tests/cli/kd-x build/test-unit
cp "$here/tests/run" tests/run

unit() { : >"tests/unit/$1.c"; printf '#!/bin/bash\n%s\n' "$2" >"build/test-unit/$1"; chmod +x "build/test-unit/$1"; }
cli() { echo "$2" >"tests/cli/kd-x/$1.sh"; }

unit good    'printf "1..2\nnoiseok 1 - a\nok 2 - b\n"'
unit skips   'printf "1..2\nok 1 - a\nnot ok 2 # SKIP b\n"'
unit fails   'printf "1..3\nok 1 - a\nnot ok 2 - b\n# why\nok 3 - c\n"; exit 1'
unit dies    'printf "1..3\nok 1 - a\n"; kill -SEGV $$'
unit status  'printf "1..1\nok 1 - a\n"; exit 1'
unit silent  'exit 0'
unit exits   'printf "1..2\nok 1 - a\n"; exit 0'
: >tests/unit/absent.c
: >tests/op/x.c
printf '#!/bin/bash\necho "FAIL x --case=2"; echo "7 passed, 1 failed, 2 skipped"; exit 1\n' >build/test-op
chmod +x build/test-op
cli good 'echo out; echo "in $PWD" >&2; exit 3'
echo out >tests/cli/kd-x/good.stdout
echo 'in {TMP}' >tests/cli/kd-x/good.stderr
echo 3 >tests/cli/kd-x/good.exit
cli regex 'echo "took 1.5 s" >&2'
echo 'took [0-9.]+ s' >tests/cli/kd-x/regex.stderr.re
cli regex_short ':'
echo 'took [0-9.]+ s' >tests/cli/kd-x/regex_short.stderr.re
cli output 'echo more'
cli newline 'printf out'
echo out >tests/cli/kd-x/newline.stdout
cli code 'exit 1'
cli hang '# timeout: 1
sleep 60'

# NAME TALLY...: what the last line must be, from tests that should pass and tests that should not
want='cli/kd-x/code 0 1
cli/kd-x/good 1 0
cli/kd-x/hang 0 1
cli/kd-x/newline 0 1
cli/kd-x/output 0 1
cli/kd-x/regex 1 0
cli/kd-x/regex_short 0 1
op 7 1 2
unit/absent 0 1
unit/dies 1 2
unit/exits 1 1
unit/fails 2 1
unit/good 2 0
unit/silent 0 1
unit/skips 1 0 1
unit/status 1 1'
bad=0
complain() { echo "$1"; bad=1; }
while read -r name passed failed skipped; do
    last=$(tests/run build "$name" | tail -n 1)
    [ "$last" = "$passed passed, $failed failed${skipped:+, $skipped skipped}" ] || complain "$name: $last"
done <<<"$want"
all=$(JOBS=4 tests/run build)
status=$?
[ $status -eq 1 ] && [[ $all == *"17 passed, 13 failed, 3 skipped" ]] || complain "all: status $status: $all"
[ "$(grep ^FAIL <<<"$all")" = "$(JOBS=1 tests/run build | grep ^FAIL)" ] || complain "the order depends on JOBS"
tests/run --update build kd-x/output >/dev/null
tests/run build kd-x/output >/dev/null || complain "--update did not"
exit $bad
