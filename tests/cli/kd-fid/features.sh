# Matrices of features, unequal counts, few rows; statistics and features give the same numbers; threads change none.
F=$GOLDEN/fid.safetensors
cd "$(dirname "$F")"
f=fid.safetensors
kd-fid $f:d64.x $f:d64.y -m fid,kid,kid-parts,precision,recall,density,coverage | sed -E "s/^(kid.*\.[0-9]{4})[0-9]*/\1/"
kd-fid $f:rank_deficient.x $f:rank_deficient.y -m fid --ridge 1e-8
kd-fid $f:d8.x $f:d8.x -m fid | awk '/^fid/ { exit !($2 < 1e-6 && $2 > -1e-6) }'; echo "self: $?"
cd "$OLDPWD"
kd-fid -q --write-ref stats --no-history $F:d8.x
kd-fid -q --write-ref features --keep-features --no-history $F:d8.x
kd-fid -m fid,kid $F:d8.x $F:d8.y --threads 1 | head -n 2 >one
kd-fid -m fid,kid features $F:d8.y --threads 2 | head -n 2 | cmp - one
kd-fid -m fid stats - <features | awk '/^fid/ { exit !($2 < 1e-6 && $2 > -1e-6) }'; echo "statistics against features: $?"
kd-fid stats $F:d8.y | head -n 1
kd-fid features $F:d8.y --bootstrap 10 -m fid | head -n 1
kd-fid stats $F:d8.y --bootstrap 10 -o scores -m fid,fid-infinite && head -n 2 scores
kd-fid --json $F:half_rounding.x $F:half_rounding.y -m kid-parts --kid-part 20 | sed -E "s/(\.[0-9]{4})[0-9]*/\1/"
kd-info stats | grep -E 'kind|mu|cov'
