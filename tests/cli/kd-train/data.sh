# Where images come from: a file, a pipe, -, the config's own data set.
. $ROOT/tests/cli/kd-train/setup.bash
digits 60
config c.json
t() { kd-train -q --no-history -b 4 --steps 3 "$@" -o /dev/null; echo "exit $?"; }
t -c c.json --name file d.st
t -c c.json --name redirected <d.st
cat d.st | t -c c.json --name piped
kd-prep -q --no-history "$mnist" --size 14 --limit 60 | t -c c.json --name dash -
for n in redirected piped dash; do same file_00000003.safetensors ${n}_00000003.safetensors; done
# In a mapped file instead of memory.
t -c c.json --name mapped --data-mem 0 d.st
same file_00000003.safetensors mapped_00000003.safetensors
# The config's: MNIST as torchvision keeps it, folders of pictures with their classes.
mkdir -p data/MNIST/raw
cp "$mnist" "${mnist/images-idx3/labels-idx1}" data/MNIST/raw
config mnist.json '"location": "nowhere"' '"location": "data"'
kd-prep -q "$mnist" --size 14 -o all.st
t -c mnist.json --name config </dev/null
t -c mnist.json --name all all.st
same config_00000003.safetensors all_00000003.safetensors
kd-prep -q "$mnist" --size 14 --limit 10 | kd-grid -q --each 'p%d.png'
mkdir -p pics/a pics/b
mv p[0-4]*.png pics/a; mv p*.png pics/b
config folder.json '"type": "mnist", "location": "nowhere", "num_classes": 10' \
    '"type": "imagefolder-class", "location": "pics", "num_classes": 2'
kd-prep -q pics --labels dir --size 14 --channels 1 -o pics.st
t -c folder.json --name folder </dev/null
t -c folder.json --name pics pics.st
same folder_00000003.safetensors pics_00000003.safetensors
config gone.json '"type": "mnist"' '"type": "imagefolder"'
t -c gone.json --name gone </dev/null
config hugging.json '"type": "mnist", "location": "nowhere"' \
    '"type": "huggingface", "location": "nelorth/oxford-flowers", "image_key": "image"'
t -c hugging.json --name hugging </dev/null
