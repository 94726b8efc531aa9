#!/bin/bash
# `make install` puts each tool, its man page and its completion in place, and `make uninstall` takes all of it away.
# tests/lint/install.sh BUILD
set -eu
if ! ls tools/kd-*.c >/dev/null 2>&1; then exit 0; fi
unset MAKEFLAGS MFLAGS MAKELEVEL
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
make_there() { make -s B="$1" DESTDIR="$there" PREFIX=/opt/kd "$2" >/dev/null; }

build=${1#"$PWD/"}
make_there "$build" install
for f in tools/kd-*.c; do
    tool=$(basename "$f" .c)
    "$there/opt/kd/bin/$tool" --help >/dev/null
    cmp "tools/$tool.1" "$there/opt/kd/share/man/man1/$tool.1"
    bash -c "source '$there/opt/kd/share/bash-completion/completions/$tool'; complete -p $tool" >/dev/null
done
make_there "$build" uninstall
left=$(find "$there" -not -type d)
if [ "$left" ]; then echo "left after uninstall:"; echo "$left"; exit 1; fi
