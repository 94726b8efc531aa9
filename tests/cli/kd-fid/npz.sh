# References in numpy's archives: good ones, in both orders of elements, and bad ones.
cd "$GOLDEN/npz"
kd-fid a.safetensors:a stats.npz | awk '/^fid/ { exit !($2 < 1e-6 && $2 > -1e-6) } 1'; echo "same moments: $?"
kd-fid stats.npz - <stats_s.npz -m fid | sed -n '2,$p'
kd-fid stats_s.npz stats_s.npz -m sfid | awk '/^sfid/ { exit !($2 < 1e-6 && $2 > -1e-6) }'; echo "sfid: $?"
for bad in images float32 alone other object big_endian short shape huge no_shape no_array no_npy cut; do
    env -u KD_HOME kd-fid stats.npz $bad.npz; echo "exit $?"
done
kd-fid --write-ref /dev/null --keep-features stats.npz; echo "exit $?"
kd-fid --write-ref - stats.npz | kd-fid - stats.npz | sed -n '2,$p'
kd-fid stats.npz "$GOLDEN/checkpoints/"no_such.pth; echo "exit $?"
