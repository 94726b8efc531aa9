#!/bin/bash
# Flags that change in the Makefile mean new objects: the library's, the kernels' for each instruction set, the tools'.
# tests/lint/flags.sh BUILD
set -u
unset MAKEFLAGS MFLAGS MAKELEVEL
would=$(make -n -W Makefile B="${1#"$PWD/"}" all) || exit 1
bad=0
for object in lib/base/opt.c.o avx2/lib/cpu/kernels/gemm.c.o tools/kd-info.c.o; do
    grep -q -e "-o [^ ]*/$object " <<<"$would" || { echo "Makefile: $object does not depend on it"; bad=1; }
done
exit $bad
