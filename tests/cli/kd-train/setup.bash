# For the tests of kd-train: `. $ROOT/tests/cli/kd-train/setup.bash`
export OMP_NUM_THREADS=1             # many tests run at once; resume.sh asks for more
here=$ROOT/tests/cli/kd-train
mnist=$ROOT/examples/data/mnist5k/train-images-idx3-ubyte.gz

# digits N [OPTION...]: the first N digits at 14x14 with labels, as d.st
digits() { local n=$1; shift; kd-prep -q --no-history "$mnist" --size 14 --limit "$n" "$@" -o d.st; }

# config FILE [FROM TO]...: the small config with pieces of it replaced
config()
{
    local file=$1 text
    shift
    text=$(cat "$here/small.json")
    while [ $# -ge 2 ]; do
        [[ $text == *"$1"* ]] || echo "the small config has no $1"
        text=${text/"$1"/"$2"}
        shift 2
    done
    printf '%s\n' "$text" >"$file"
}

# What is random in training, all of it at once.
everything=('"dropout_rate": [0.0]' '"dropout_rate": [0.1]' '"mapping_dropout_rate": 0.0' '"mapping_dropout_rate": 0.1'
    '"augment_prob": 0.0' '"augment_prob": 0.5')

same() { cmp "$1" "$2" && echo "same $1 $2"; }

# The lines of a log without what depends on the clock.
steps_of() { sed 's/, "images_per_s".*//' "$1"; }
