#!/bin/bash
# links.sh finds what it should, in a small tree of its own, and no more.
set -u
here=$PWD
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root" || exit 1
mkdir -p lib/op formats tests/unit tools
: >lib/op/op.h
: >tests/unit/config_a.c
cat >formats/a.md <<'END'
[good](../lib/op/op.h), [good](a.md#part "title"), [good](#part), [good](https://example.com/a.md)
[bad](b.md), [bad](../formats/c.md#part)
```
[not a link](d.md)
```
END
cat >lib/op/a.c <<'END'
#include "op/op.h"
// Good: lib/op/op.h, tests/unit/NAME.c, tests/unit/*.c, tests/unit/%s.c, /usr/lib/none.c, other/tests/none, lib/op/op.h:17.
const char *good = "tests/unit/config_" "a.c", *object = "lib/op/a.c.o";
// Bad: tests/unit/b.c, lib/op/none.h.
// Bad: read op/none.h first. Good: README.md.
// The rule is in the other README, section 2.
END
printf 'See\n.I lib/op/no\\-such.c\n' >tools/kd-a.1
printf '# tests/golden/none.py makes it: "tests/unit/other"\n' >tools/a.sh

cat >want <<'END'
formats/a.md:2: link to b.md: there is no such file
formats/a.md:2: link to ../formats/c.md: there is no such file
lib/op/a.c:4: tests/unit/b.c: there is no such file
lib/op/a.c:4: lib/op/none.h: there is no such file
lib/op/a.c:5: op/none.h: there is no lib/op/none.h
lib/op/a.c:6: a README without its path: write README.md or FOLDER/README.md
tools/a.sh:1: tests/golden/none.py: there is no such file
tools/a.sh:1: tests/unit/other: there is no such file
tools/kd-a.1:2: lib/op/no-such.c: there is no such file
END
bash "$here/tests/lint/links.sh" >got
status=$?
[ $status -eq 1 ] || echo "exit status $status with findings"
diff want got && [ $status -eq 1 ] || exit 1
rm lib/op/a.c formats/a.md tools/*
bash "$here/tests/lint/links.sh"
