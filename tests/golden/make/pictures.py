# augmentation.safetensors: k-diffusion's augmentation of three pictures with stored draws, in float32 as it is, and the warp in
# float64 (augmented_f64). prep/prep.safetensors, prep/images.json: Pillow's and torchvision's decoding and resizing, as
# k-diffusion's train.py does it, and its conversion of pictures to bytes.
import json
import os
import types

import numpy
import torch
from PIL import Image
from k_diffusion import augmentation, utils
from torchvision import transforms

from golden import File, end, path, same

torch.set_default_dtype(torch.float32)
f = File("augmentation.safetensors", limit=1e-6)
warp, array = augmentation.transform.warp, numpy.array


def pipeline(picture, draws, stored=None):
    """The augmented picture, the condition and the matrix. The picture is warped by the stored matrix: to the last bit, the product
    of small float32 matrices is not the same on all machines."""
    draws, seen = iter(draws), {}
    give = lambda *_: torch.tensor(float(next(draws)))
    augmentation.torch = types.SimpleNamespace(randint=give, rand=give, randn=give, tensor=torch.tensor, as_tensor=torch.as_tensor,
                                               cos=torch.cos, sin=torch.sin, stack=torch.stack, float32=torch.float32,
                                               zeros_like=torch.zeros_like)
    affine = lambda matrix: (seen.setdefault("matrix", matrix), affine_transform(matrix if stored is None else stored))[1]
    augmentation.transform = types.SimpleNamespace(AffineTransform=affine, warp=warp)
    image, _, cond = augmentation.KarrasAugmentationPipeline(disable_all=stored is None)(picture)
    return image, cond, seen["matrix"]


affine_transform = augmentation.transform.AffineTransform
for name in ("image_32x32", "image_28x36", "image_gray_28x28"):
    pixels = f.stored[name].numpy()
    picture = Image.fromarray(pixels if pixels.ndim == 2 else numpy.ascontiguousarray(numpy.moveaxis(pixels, 0, -1)))
    for key in [key for key in f.stored if key.startswith(f"{name}.") and key.endswith(".draws")]:
        case = key[:-len(".draws")]
        stored = f.stored[f"{case}.matrix"].numpy()
        image, cond, matrix = pipeline(picture, f.stored[key], stored)
        f.put(f"{case}.augmented", image)
        f.put(f"{case}.cond", cond)
        f.put(f"{case}.matrix", matrix, 1e-5)
        # the same matrix, the warp in float64
        augmentation.np = types.SimpleNamespace(array=lambda image, dtype: array(image, dtype=numpy.float64), float32=numpy.float64)
        f.put(f"{case}.augmented_f64", pipeline(picture, f.stored[key], stored.astype(numpy.float64))[0], 1e-12)
        augmentation.np = numpy
    if f"{name}.disabled.cond" in f:
        image, cond, _ = pipeline(picture, [0] * 13)
        f.put(f"{name}.disabled.augmented", image)
        f.put(f"{name}.disabled.cond", cond)
f.done()

f = File("prep/prep.safetensors")
filters = {"bicubic": transforms.InterpolationMode.BICUBIC, "lanczos": transforms.InterpolationMode.LANCZOS}
with open(path("prep/images.json")) as text:
    images = json.load(text)
same("prep/prep.safetensors", "metadata images", f.json("images"), images)
for name, stored in images.items():
    with Image.open(os.path.join(path("prep/images"), name)) as file:
        found = {"pil_mode": file.mode, "size_wh": list(file.size)}
        picture = file.convert("RGB")
    f.put(f"{name}.rgb", array(picture))
    for filter, mode in filters.items():
        for size in (32, 64):
            resized = transforms.Resize(size, interpolation=mode)(picture)
            found[f"resized_wh_{size}"] = list(resized.size)
            if f"{name}.{filter}{size}" in f:
                f.put(f"{name}.{filter}{size}", array(transforms.CenterCrop(size)(resized)))
    same("prep/images.json", name, found, stored)
f.put("out.uint8", array(utils.to_pil_image(f.stored["out.float"][None, None])))
f.done()
end()
