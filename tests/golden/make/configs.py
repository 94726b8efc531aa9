# configs/*.filled.json: k-diffusion's stock configs with its defaults filled in. configs/state_dict_shapes.json: names, shapes and
# numbers of parameters of their networks. network_shapes.json: the same of the networks of the cases here.
import glob
import json
import os

import torch
from k_diffusion import config as kd_config

from golden import File, end, load_guided, path, same


def read(name):
    with open(path(name)) as text:
        return json.load(text)


def shapes(model):
    return {name: list(p.shape) for name, p in model.state_dict().items()}


with torch.device("meta"):
    stored = read("configs/state_dict_shapes.json")
    for name, want in stored.items():
        config = kd_config.load_config(path(f"configs/{name}"))
        filled = f"configs/{name.replace('.json', '.filled.json')}"
        same("configs/*.filled.json", name, json.loads(json.dumps(config)), read(filled))
        model = kd_config.make_model(config)
        same("configs/state_dict_shapes.json", name, shapes(model), want["state_dict"])
        same("configs/state_dict_shapes.json", f"{name}: parameters", sum(p.numel() for p in model.parameters()), want["n_params"])

    _, unet = load_guided()
    for name, want in read("network_shapes.json").items():
        if name.startswith("guided"):
            args = read(f"{name}.args.json")
            same("network_shapes.json", f"{name}: arguments", args, want["model"])
            same("network_shapes.json", f"{name}: classes", args["num_classes"] or 0, want["classes"])
            model = unet.UNetModel(**args)
        else:
            config = kd_config.load_config(path(f"{name}.config.json"))
            same("network_shapes.json", f"{name}: model", config["model"], want["model"])
            same("network_shapes.json", f"{name}: classes", config["dataset"]["num_classes"], want["classes"])
            model = kd_config.make_model(config)
        same("network_shapes.json", f"{name}: shapes", dict(sorted(shapes(model).items())), dict(sorted(want["shapes"].items())))
end()
