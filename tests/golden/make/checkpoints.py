# What is made of checkpoints/kdiff_train.pth: kdiff_train.flat.safetensors and .scalars.json (every tensor and every other value
# under its dotted path), kdiff_inference.* (what k-diffusion's convert_for_inference.py writes: model_ema in a type, and the config);
# and kdiff_no_config.pth from kdiff_unet_adamw.pth.
import json

import torch

from golden import File, end, path, same


def load(name):
    return torch.load(path(f"checkpoints/{name}.pth"), weights_only=True)


def flatten(value, at=""):
    """Lists of numbers are values, lists of anything else go on."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(x, (dict, list, torch.Tensor)) for x in value):
        items = enumerate(value)
    else:
        return {at: value}
    return {path: x for key, part in items for path, x in flatten(part, f"{at}.{key}" if at else str(key)).items()}


checkpoint = load("kdiff_train")
everything = flatten(checkpoint)
f = File("checkpoints/kdiff_train.flat.safetensors")
for name in f.stored:
    f.put(name, everything[name], limit=1e-300)
f.done()
with open(path("checkpoints/kdiff_train.scalars.json")) as text:
    same("checkpoints/kdiff_train.scalars.json", "values", json.loads(json.dumps(
        {key: x for key, x in everything.items() if not isinstance(x, torch.Tensor)})), json.load(text))
with open(path("checkpoints/kdiff_train_gns.json")) as text:
    same("checkpoints/kdiff_train_gns.json", "values", load("kdiff_train_gns")["gns_stats"], json.load(text))

for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
    f = File(f"checkpoints/kdiff_inference.{name}.safetensors")
    same(f.name, "config", f.meta["config"], json.dumps(checkpoint["config"], indent=4))
    for key, x in checkpoint["model_ema"].items():
        same(f.name, key, bool(torch.equal(x.to(dtype), f.stored[key])), True)
    same(f.name, "names", sorted(f.stored), sorted(checkpoint["model_ema"]))

with_config, without = flatten(load("kdiff_unet_adamw")), flatten(load("kdiff_no_config"))
with_config = {key: x for key, x in with_config.items() if not key.startswith("config.")}
same("checkpoints/kdiff_no_config.pth", "names", list(without), list(with_config))
for key, x in with_config.items():
    same("checkpoints/kdiff_no_config.pth", key, bool((x == without[key]).all()) if isinstance(x, torch.Tensor) else x == without[key], True)
end()
