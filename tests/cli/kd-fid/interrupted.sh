# A signal ends what takes long in the middle of a score, and leaves no file.
h='{"__metadata__":{"kd":"features/1"},"feature":{"dtype":"F32","shape":[3000,64],"data_offsets":[0,768000]}}'
printf "\\x$(printf %02x ${#h})\\0\\0\\0\\0\\0\\0\\0%s" "$h" >zeros
truncate -s $((8 + ${#h} + 768000)) zeros
mkfifo pipe
# ended OPTION...: the signal comes when the samples are read, but for what a pipe holds
ended()
{
    kd-fid zeros - -o scores "$@" <pipe &
    cat zeros >pipe
    sleep 0.3
    kill -TERM $!
    wait $!
    echo "exit $?"
}
ended -m kid --kid-subsets 100000
ended -m fid --bootstrap 100000
ended -m fid-infinite --points 1000
ls
