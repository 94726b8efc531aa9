# inception.safetensors, inception_names.json: pytorch-fid's FID Inception with weights and images by a rule, in float64.
# inception_resize.safetensors: pictures resized to 299 x 299 by clean-fid (Pillow, float32) and by k-diffusion (float64).
#
# The rule of weights: with u = h / 2^32 - 1/2, h the number of golden.mixed for an element's name and row-major index,
#   conv.weight, fc.weight  2u sqrt(6 / fan_in), fan_in the product of all sizes but the first
#   bn.weight 1 + 0.4u      bn.bias 0.4u      running_mean 0.2u      running_var 1 + 0.5u      fc.bias 0.2u
# computed in double and rounded to float32.
import json

import numpy
import torch
from cleanfid.resize import build_resizer
from pytorch_fid import inception
from torch.nn import functional as F

from golden import DTYPE, File, end, mixed, path, picture, same


def weight(name, shape):
    u = mixed(name, numpy.arange(int(numpy.prod(shape)))) / 2 ** 32 - 0.5
    if name.endswith(("conv.weight", "fc.weight")):
        w = 2 * u * numpy.sqrt(6 / numpy.prod(shape[1:]))
    else:
        first, factor = {"bn.weight": (1, 0.4), "bn.bias": (0, 0.4), "running_mean": (0, 0.2), "running_var": (1, 0.5),
                         "fc.bias": (0, 0.2)}[next(end for end in ("bn.weight", "bn.bias", "running_mean", "running_var", "fc.bias")
                                                   if name.endswith(end))]
        w = first + factor * u
    return torch.from_numpy(w.astype(numpy.float32).reshape(shape))


f = File("inception.safetensors")
of = {}


def weights_by_rule(*_, **__):
    with open(path("inception_names.json")) as text:
        of.update({name: weight(name, shape) for name, shape in json.load(text)["tensors"].items() if "num_batches" not in name})
    return of


inception.load_state_dict_from_url = weights_by_rule
network = inception.fid_inception_v3().to(DTYPE).eval()
shapes = {name: list(p.shape) for name, p in network.state_dict().items()}
with open(path("inception_names.json")) as text:
    same("inception_names.json", "names and shapes", list(shapes.items()), list(json.load(text)["tensors"].items()))
for name in f.stored:
    if name.startswith("sample."):
        w = of[name[len("sample."):]].flatten()
        f.put(name, w[[0, 1, len(w) // 2, len(w) - 1]])
pictures = torch.stack([picture("image0", 13, 299, 299), picture("image1", 5, 299, 299)])
for i in range(2):
    f.put(f"image{i}.corner", pictures[i, :, :30:3, :30:3])
means = {}
for name, module in network.named_children():
    module.register_forward_hook(lambda _, __, out, name=name: means.__setitem__(name, out))
with torch.no_grad():
    network((pictures.to(DTYPE) - 128) / 128)
for name in f.stored:
    if name.startswith("channel_mean."):
        f.put(name, means[name[len("channel_mean."):]].mean((2, 3)))
f.put("features", F.adaptive_avg_pool2d(means["Mixed_7c"], 1).flatten(1))
f.done()

f = File("inception_resize.safetensors")
resize = build_resizer("clean")
for name, b, h, w in (("r32", 3, 32, 32), ("r64x48", 5, 64, 48), ("r330x312", 7, 330, 312)):
    image = picture(name, b, h, w)
    if f"{name}.image" in f:
        f.put(f"{name}.image", image.movedim(0, -1))
    clean = torch.from_numpy(resize(image.movedim(0, -1).numpy()))
    f.put(f"{name}.cleanfid", clean[::7, ::7])
    f.put(f"{name}.cleanfid_top", clean[:12, :12])
    x = F.interpolate(image.to(DTYPE)[None] / 127.5 - 1, (299, 299), mode="bicubic", align_corners=False, antialias=True)[0]
    x = x * 127.5 + 127.5
    f.put(f"{name}.kdiff_unclamped_range", [x.min(), x.max()])
    f.put(f"{name}.kdiff", x.clamp(0, 255)[:, ::7, ::7])
f.done()
end()
