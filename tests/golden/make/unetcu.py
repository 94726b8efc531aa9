# What comes from unet.cu (clu0/unet.cu on GitHub; PYTHONPATH names its folder): seed_diffusion.safetensors, its tables in float32,
# noised pictures, losses, and a step of its generator in float64 on these tables; unetcu_parameters.json, the order of its
# parameters under guided-diffusion's names; unetcu_images.bin, checkpoints/kdiff_train_images in its format.
# guided_tiny.seed.bin: guided_tiny's weights in its format.
import json
import os
import re

import numpy
import torch
from PIL import Image

from golden import File, end, path, same

import generate
import train_unet

f = File("seed_diffusion.safetensors")
betas = train_unet.get_named_beta_schedule("linear", 1000)
diffusion = train_unet.GaussianDiffusion(betas)
for name in ("betas", "alphas_cumprod", "sqrt_alphas_cumprod", "sqrt_one_minus_alphas_cumprod"):
    f.put(name, torch.from_numpy(getattr(diffusion, name)))
t, x0, noise = f["t"], f.stored["x0"], f.stored["noise"]
f.put("x_t", diffusion.q_sample(x0, t, noise))
f.put("mse_loss", diffusion.mse_loss(lambda x, t: f.stored["model_output"], x0, t, noise))
generate.torch.randn_like = lambda x: f["step.noise"]
f.put("step.out", torch.cat([generate.sample_next_step(f["step.x"], k, lambda x, t: f["step.eps"], 1000, f["betas"], f["alphas_cumprod"])
                             for k in f["step.t"]]))
f.done()

# unet.cu's names of the layers of a block, and guided-diffusion's
LAYERS = {"gn1": "in_layers.0", "cv3_1": "in_layers.2", "l_emb": "emb_layers.1", "gn2": "out_layers.0", "cv3_2": "out_layers.3",
          "gn": "norm", "proj": "proj_out"}


def network(channels, levels, blocks, attention_from):
    attention = tuple(2 ** level for level in range(attention_from, levels))
    model = train_unet.UNetModel(3, channels, 3, blocks, attention, tuple(range(1, levels + 1)), num_head_channels=32)
    rename = lambda name: re.sub(r"\.(\w+)\.(weight|bias)$", lambda m: f".{LAYERS.get(m[1], m[1])}.{m[2]}", name)
    return [(rename(name), p) for name, p in model.named_parameters()]


with open(path("unetcu_parameters.json")) as text:
    for key, stored in json.load(text).items():
        same("unetcu_parameters.json", key, [[name, list(p.shape)] for name, p in network(*map(int, key.split()))], stored)

weights = torch.load(path("guided_tiny.zip.pt"), weights_only=True)
with open(path("guided_tiny.seed.bin"), "rb") as file:
    header, stored = numpy.frombuffer(file.read(1024), numpy.int32), file.read()
same("guided_tiny.seed.bin", "header", header[:10].tolist(), [12345678, 2, 3, 32, 3, 8, 8, 1000, 0, 0])
same("guided_tiny.seed.bin", "weights", b"".join(weights[name].numpy().tobytes() for name, _ in network(32, 1, 1, 0)), stored)

folder = path("checkpoints/kdiff_train_images")
pictures = [numpy.array(Image.open(os.path.join(folder, name)).convert("RGB")) for name in sorted(os.listdir(folder))]
header = numpy.zeros(256, numpy.int32)
header[:5] = 20240620, len(pictures), 3, *pictures[0].shape[:2]
levels = b"".join((p.astype(numpy.float32) / 127.5 - 1).transpose(2, 0, 1).astype("float32").tobytes() for p in pictures)
with open(path("unetcu_images.bin"), "rb") as file:
    same("unetcu_images.bin", "bytes", header.tobytes() + levels, file.read())
end()
