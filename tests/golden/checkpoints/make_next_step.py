# Training checkpoints of the networks that kdiff_train.pth is not of, and what PyTorch's next optimizer step makes of each.
# Run beside k_diffusion (crowsonkb/k-diffusion 0.2.0.dev0, PyTorch 2.15, Python 3.11): K_DIFFUSION_USE_COMPILE=0 python make_next_step.py DIR
import copy
import json
import math
import sys
import zipfile

import torch
import torch.optim.lr_scheduler as lrs

init = lrs.LRScheduler.__init__                          # k-diffusion still gives it `verbose`, which PyTorch has dropped
lrs.LRScheduler.__init__ = lambda self, opt, last_epoch=-1, verbose=False: init(self, opt, last_epoch)
import k_diffusion as K
from safetensors.torch import save_file

DENSITY = {"type": "lognormal", "mean": -1.2, "std": 1.2}
COMMON = {"input_channels": 1, "input_size": [8, 8], "sigma_data": 0.5, "sigma_min": 0.01, "sigma_max": 80, "dropout_rate": 0.0,
          "augment_prob": 0.0, "sigma_sample_density": DENSITY}
UNET = {**COMMON, "type": "image_v1", "mapping_out": 8, "depths": [1, 1], "channels": [8, 12], "self_attn_depths": [False, True]}
SKIP = {**COMMON, "type": "image_v1", "mapping_out": 8, "depths": [1, 1, 1], "channels": [8, 8, 12],
        "self_attn_depths": [False, False, True], "skip_stages": 1}
V1 = {**COMMON, "type": "image_transformer_v1", "patch_size": [4, 4], "depth": 1, "width": 64, "d_ff": 8}
SGD = {"type": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}
CASES = {"unet_adamw": (UNET, None, {"type": "constant", "warmup": 0.5}, 1),
         "unet_sgd": (SKIP, SGD, {"type": "exponential", "num_steps": 10, "decay": 0.5, "warmup": 0.7}, 1),
         "v1_adamw": (V1, None, {"type": "inverse", "inv_gamma": 20.0, "power": 1.0, "warmup": 0.9}, 2)}
SHOWN = 24                                               # elements of a parameter whose result is kept


def optimizer(config, inner):
    c = config["optimizer"]
    groups = inner.param_groups(c["lr"])
    if c["type"] == "sgd":
        return torch.optim.SGD(groups, lr=c["lr"], momentum=c["momentum"], nesterov=c["nesterov"], weight_decay=c["weight_decay"])
    return torch.optim.AdamW(groups, lr=c["lr"], betas=tuple(c["betas"]), eps=c["eps"], weight_decay=c["weight_decay"])


def schedule(config, opt):
    c = config["lr_sched"]
    if c["type"] == "inverse":
        return K.utils.InverseLR(opt, inv_gamma=c["inv_gamma"], power=c["power"], warmup=c["warmup"])
    if c["type"] == "exponential":
        return K.utils.ExponentialLR(opt, num_steps=c["num_steps"], decay=c["decay"], warmup=c["warmup"])
    return K.utils.ConstantLRWithWarmup(opt, warmup=c["warmup"])


def randomize(inner):
    g = torch.Generator().manual_seed(0)
    for p in inner.parameters():
        with torch.no_grad():
            p.add_(torch.randn(p.shape, generator=g) * (p[0].numel() ** -0.5 if p.ndim > 1 else 0.1))


class Run:
    """What train.py keeps, in its order of events."""
    def __init__(self, model, opt_config, sched_config, accum):
        config = {"model": model, "dataset": {"type": "imagefolder", "location": "x"}, "lr_sched": sched_config}
        if opt_config:
            config["optimizer"] = opt_config
        self.config, self.accum, self.n, self.stats = K.config.load_config(config), accum, 0, {}
        self.inner = K.config.make_model(self.config)
        randomize(self.inner)
        self.ema = copy.deepcopy(self.inner)
        self.opt = optimizer(self.config, self.inner)
        self.sched = schedule(self.config, self.opt)
        ema = self.config["ema_sched"]
        self.ema_sched = K.utils.EMAWarmup(power=ema["power"], max_value=ema["max_value"])
        wrap = K.config.make_denoiser_wrapper(self.config)
        self.model, self.model_ema = wrap(self.inner), wrap(self.ema)

    def loss(self):
        x = torch.randn(4, 1, 8, 8) * 0.5
        return self.model.loss(x, torch.randn_like(x), torch.rand(4) * 3 + 0.1, aug_cond=torch.zeros(4, 9)).mean()

    def step(self):
        for k in range(self.accum):
            loss = self.loss()
            (loss / self.accum).backward()
            if k == self.accum - 1:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
            self.sched.step()
            decay = self.ema_sched.get_value()
            K.utils.ema_update_dict(self.stats, {"loss": loss.item()}, decay ** (1 / self.accum))
        self.opt.zero_grad()
        K.utils.ema_update(self.model, self.model_ema, decay)
        self.ema_sched.step()
        self.n += self.accum

    def state(self):
        return {"config": self.config, "model": self.inner.state_dict(), "model_ema": self.ema.state_dict(),
                "opt": self.opt.state_dict(), "sched": self.sched.state_dict(), "ema_sched": self.ema_sched.state_dict(),
                "epoch": 0, "step": self.n, "gns_stats": None, "ema_stats": self.stats,
                "demo_gen": torch.Generator().get_state(), "elapsed": 1.5}


def names_by_index(run):
    name = {p: n for n, p in run.inner.named_parameters()}
    return [name[p] for g in run.opt.param_groups for p in g["params"]]


def shorten(run):
    """Four bits for each number's digits, so that the files pack."""
    keep = lambda t: t.view(torch.int32).add_(1 << 18).bitwise_and_(-1 << 19)
    with torch.no_grad():
        for t in [*run.inner.parameters(), *run.ema.parameters()]:
            keep(t)
        for s in run.opt.state.values():
            for k in ("exp_avg", "exp_avg_sq", "momentum_buffer"):
                if k in s:
                    keep(s[k])


def gradient(index, p):
    """A formula, so that no file need hold it."""
    k = torch.arange(p.numel(), dtype=torch.int64)
    return (((k * 7 + index * 5) % 13 - 6).double() / 64).reshape(p.shape)


def next_step(run):
    """In float64 from the same state, with those gradients (of the second micro-batch, where two make a step: the first has moved
    the learning rate on)."""
    names = names_by_index(run)
    has_state = [p in run.opt.state for g in run.opt.param_groups for p in g["params"]]
    saved = copy.deepcopy(run.opt.state_dict())
    run.inner.double(), run.ema.double()
    opt = optimizer(run.config, run.inner)
    opt.load_state_dict(saved)                           # casts the moments to the parameters' type
    params = [p for g in opt.param_groups for p in g["params"]]
    for _ in range(run.accum - 1):
        run.sched.step()
    for g, last in zip(opt.param_groups, run.sched.get_last_lr()):
        g["lr"] = last
    for i, p in enumerate(params):
        p.grad = gradient(i, p) if has_state[i] else None    # a parameter that the loss does not depend on has none
    norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
    decay = run.ema_sched.get_value()
    K.utils.ema_update(run.model, run.model_ema, decay)
    ema = dict(run.ema.named_parameters())
    out = {}
    for n, p in zip(names, params):
        at = torch.arange(0, p.numel(), max(1, p.numel() // SHOWN))[:SHOWN]
        out["at." + n] = at
        out["model." + n] = p.detach().flatten()[at]
        out["ema." + n] = ema[n].detach().flatten()[at]
        for key, ours in (("exp_avg", "m"), ("exp_avg_sq", "v"), ("momentum_buffer", "m")):
            if key in opt.state[p]:
                out[f"opt.{ours}.{n}"] = opt.state[p][key].flatten()[at]
    told = {"names": json.dumps(names), "lr": json.dumps([g["lr"] for g in opt.param_groups]), "decay": repr(decay),
            "norm": repr(norm.item())}
    return {k: v.clone().contiguous() for k, v in out.items()}, told


def pack(path, obj):
    torch.save(obj, path)
    with zipfile.ZipFile(path) as z:
        members = [(i.filename, z.read(i)) for i in z.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, data in members:
            z.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    torch.load(path, weights_only=True)                  # PyTorch reads it still


for name, case in CASES.items():
    torch.manual_seed(1)
    run = Run(*case)
    for _ in range(3):
        run.step()
    shorten(run)
    path = f"{sys.argv[1]}/kdiff_{name}"
    torch.save(run.state(), path + ".pth") if name == "unet_adamw" else pack(path + ".pth", run.state())
    if name == "unet_adamw":                             # as k-diffusion's older versions wrote it
        pack(f"{sys.argv[1]}/kdiff_no_config.pth", {k: v for k, v in run.state().items() if k != "config"})
    tensors, told = next_step(run)
    save_file(tensors, path + ".next.safetensors", metadata=told)
