# Which files a run leaves, what --keep and --force delete, where the model goes.
. $ROOT/tests/cli/kd-train/setup.bash
digits 40
config c.json
t() { kd-train -q -c c.json -b 4 "$@" d.st; echo "exit $?"; }
t --steps 7 --save-every 2 --name a -o a.st; ls a*
t --steps 7 --save-every 2 --name b --keep 2 -o /dev/null; ls b*
# Others' files are left alone.
touch b_0000001.safetensors b_00000001.safetensors.bak xb_00000001.safetensors b_demo_00000009.png
t --steps 9 --save-every 1 --name b --keep 1 --resume auto -o /dev/null; ls *b*
# Anew: old checkpoints go when the first new one is whole.
t --steps 3 --name b --force -o /dev/null; ls *b*
wc -l <b_log.jsonl
# In a folder, and without a name.
mkdir runs
t --steps 2 --name runs/x -o runs/x.st; ls runs
t --steps 1 --log my.log >m.st; ls m*
# What a killed run left half written goes.
touch .c_00000003.safetensors.abcdef .c_other
t --steps 1 --name c --resume auto -o /dev/null; ls -A .c* c_*
# Fewer pictures than a batch; two images; one.
digits 3
t --steps 2 --name few -b 16 -o /dev/null
digits 1
t --steps 2 --name one -b 16 -o /dev/null
