# A signal ends what takes long in the middle of a score, and leaves no file.
h='{"x":{"dtype":"F32","shape":[3000,64],"data_offsets":[0,768000]}}'
printf "\\x$(printf %02x ${#h})\\0\\0\\0\\0\\0\\0\\0%s" "$h" >zeros
truncate -s $((8 + ${#h} + 768000)) zeros
timeout -s INT --preserve-status 1 kd-fid zeros:x zeros:x -m kid --kid-subsets 100000 -o scores; echo "exit $?"
timeout -s TERM --preserve-status 1 kd-fid zeros:x zeros:x -m fid --bootstrap 100000 -o scores; echo "exit $?"
timeout -s INT --preserve-status 1 kd-fid zeros:x zeros:x -m fid-infinite --points 1000 -o scores; echo "exit $?"
ls
