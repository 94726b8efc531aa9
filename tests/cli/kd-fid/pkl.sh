# EDM2's references, written by numpy in every protocol: good ones, which metric is taken, and what is refused.
cd "$GOLDEN/edm2"
same() { awk '/^fid/ { exit !($2 < 1e-6 && $2 > -1e-6) }'; echo "$? $*"; }
for good in protocol2 protocol3 protocol5 numpy2 fortran4 fortran5; do kd-fid protocol4.pkl $good.pkl | same $good; done
kd-fid dinov2.pkl protocol2.pkl:fd_dinov2 | same the only one, one that is named
kd-fid - protocol2.pkl:fid <protocol4.pkl | sed -n '2,$p'
kd-fid --write-ref - --no-history protocol5.pkl | kd-fid - protocol4.pkl | sed -n '2,$p'
for bad in protocol4.pkl:fud protocol4.pkl: no_sigma.pkl dinov2.pkl dinov2.pkl:fid list.pkl no_array.pkl one_image.pkl float32.pkl \
    big_endian.pkl object.pkl not_square.pkl nan.pkl wrong_shape.pkl repeated.pkl short.pkl huge.pkl negative.pkl system.pkl eval.pkl \
    cut.pkl more.pkl protocol0.pkl protocol4.pkl:fid:x; do
    kd-fid protocol4.pkl $bad; echo "exit $?"
done
kd-fid protocol4.pkl protocol4.pkl -m kid; echo "exit $?"
