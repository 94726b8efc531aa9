# Going on from a named checkpoint: not over the files of another run, nor beside later ones of its own, unless that is said.
. $ROOT/tests/cli/kd-train/setup.bash
digits 20
config c.json
t() { kd-train -q --no-history -b 4 -o /dev/null "$@"; echo "exit $?"; }
t -c c.json d.st --name a --steps 6 --save-every 2
t -c c.json d.st --name b --steps 4 --save-every 2 --seed 1
# Another run's.
sum() { cat b_* a_* | cksum; }
before=$(sum)
t d.st --resume a_00000006.safetensors --name b --steps 8
t d.st --resume a_00000006.safetensors --name c --log b_log.jsonl --steps 8
mkdir copy && cp a_00000006.safetensors copy
t d.st --resume copy/a_00000006.safetensors --name a --steps 8
# An older step of its own.
t d.st --resume a_00000002.safetensors --name a --steps 8
[ "$before" = "$(sum)" ] && echo nothing changed
ls c* | grep -v c.json
# In so many words: the other run's log is not gone on with, its checkpoints go.
t d.st --resume a_00000006.safetensors --name b --steps 8 --force
ls b_*
sed 's/,.*//' b_log.jsonl
# A branch: what was later goes when the first new one is whole, and is not what auto goes on from.
KD_FAIL_WRITE=1 t d.st --resume a_00000002.safetensors --name a --steps 3 --lr 1e-4 --force
ls a_*
t d.st --resume ./a_00000002.safetensors --name a --steps 3 --lr 1e-4 --force
ls a_*
t d.st --resume auto --name a --steps 5
ls a_*
sed -n 's/.*"lr": \([^,]*\),.*/\1/p' a_log.jsonl
# Its newest.
t d.st --resume a_00000005.safetensors --name a --steps 6
t d.st --resume auto --force --name a --steps 7
