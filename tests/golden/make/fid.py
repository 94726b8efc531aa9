# fid.safetensors: FID and KID of sets of features by k-diffusion (float64, except where the metadata says float32), FID by
# clean-fid and pytorch-fid, and KID by clean-fid on one subset of all rows.
import numpy
import torch
from cleanfid import fid as cleanfid
from k_diffusion import evaluation
from pytorch_fid import fid_score

from golden import File, compare, end

f = File("fid.safetensors")
for case, values in f.json("values").items():
    x, y = f[f"{case}.x"], f[f"{case}.y"]
    # where the product of covariances is singular, its square root is that of rounding errors
    singular = case == "rank_deficient"
    f.put(f"{case}.fid", evaluation.fid(x, y), 1e-8 if singular else None)
    statistics = [(a.numpy().mean(0), numpy.cov(a.numpy(), rowvar=False)) for a in (x, y)]
    limit = 1e-6 if singular else 1e-10
    f.put(f"{case}.cleanfid_fid", cleanfid.frechet_distance(*statistics[0], *statistics[1]), limit)
    f.put(f"{case}.pytorch_fid_fid", fid_score.calculate_frechet_distance(*statistics[0], *statistics[1]), limit)
    for key in values:
        if key.startswith("kid.max"):
            f.put(f"{case}.{key}", evaluation.kid(x, y, int(key[7:])))
    if f"{case}.cleanfid_kid" in f:
        f.put(f"{case}.cleanfid_kid", cleanfid.kernel_distance(x.numpy(), y.numpy(), num_subsets=1, max_subset_size=len(x)))
    for key, value in values.items():
        name = f"{case}.{key.replace('cleanfid_kid_full_subset', 'cleanfid_kid')}"
        if name in f:
            compare("fid.safetensors, metadata", name, [value], [f[name].item()])
f.done()
end()
