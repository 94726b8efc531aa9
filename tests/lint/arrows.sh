#!/bin/bash
# The arrows between the folders (HACKING.md): who may include whose headers. A folder may always include its own.
set -u

may='
base
tensor      base
formats     tensor base
op          tensor base
cpu         op/backend.h op/op.h op/ops.def tensor base
device      cpu/cpu.h op tensor base
data        formats tensor base
model       op formats tensor base
diffusion   model op formats tensor base
train       metric diffusion model op data formats tensor base
metric      model op data formats tensor base
tools       train metric diffusion model device op data formats tensor base
'

bad=$(grep -rnE '^ *# *include *["<]' lib formats tools cuda --include='*.[ch]' --include='*.cu' --include='*.cuh' 2>/dev/null |
    awk -v may="$may" '
    BEGIN {
        n = split(may, line, "\n")
        for (i = 1; i <= n; i++) {
            m = split(line[i], word, " ")
            for (j = 1; j <= m; j++) ok[word[1], word[j]] = 1
        }
    }
    {
        split($0, at, ":")
        file = at[1]
        header = $0; sub(/.*include *["<]/, "", header); sub(/[">].*/, "", header)
        if (file ~ /^lib\// && header ~ /^(cuda|nccl|mpi|cublas|device_launch)/) {
            print at[1] ":" at[2] ": " header ": nothing in lib/ includes a CUDA or MPI header"; next
        }
        if ($0 !~ /include *"/) next
        from = file; sub(/^lib\//, "", from); sub(/\/.*/, "", from)
        to = header
        if (!sub(/\/.*/, "", to)) to = from
        if (!((from, to) in ok) && !((from, header) in ok))
            print at[1] ":" at[2] ": " from " may not include " header
    }')
if [ "$bad" ]; then echo "$bad"; exit 1; fi
