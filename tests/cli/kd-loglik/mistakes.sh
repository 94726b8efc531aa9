# Each mistake has its sentence and exit code.
model=$GOLDEN/v2_neighborhood_k7.weights.safetensors
plain=$GOLDEN/v2_global.weights.safetensors
kd-sample -q -n 2 --steps 1 -o p.st "$model"
kd-sample -q -n 2 --steps 1 --class none -o none.st "$model"
try() { kd-loglik -q "$@" >out; echo "$? $(wc -c <out)"; }
try
try - -
try missing.st p.st
try "$model" missing.st
try "$plain" p.st
try "$model" none.st
try "$model" p.st --class 10
try "$model" p.st --sigma-min 0
try "$model" p.st --sigma-min 90
try "$model" p.st --rtol -1
try "$model" p.st --rtol 0 --atol 0 --max-calls 20
try "$model" p.st --probes 0
try "$GOLDEN/v2_none_mapcond.weights.safetensors" p.st
try "$model" </dev/null
{ head -c -4 "$plain"; printf '\377\377\377\377'; } >nan.st               # the last weight is NaN
kd-sample -q -n 2 --steps 1 -o q.st "$plain"
try nan.st q.st
kd-loglik -q --rtol 1 --atol 1 "$plain" q.st | true
echo "${PIPESTATUS[0]}"
kd-loglik -q --rtol 1 --atol 1 "$plain" q.st >/dev/full
echo $?
