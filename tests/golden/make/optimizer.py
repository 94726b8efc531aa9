# optimizer_*.safetensors: steps of v2_global on the batches of optimizer_data.safetensors, in the order of k-diffusion's
# train.py, with PyTorch's optimizers and k-diffusion's parameter groups, schedules and average.
# param_groups.json: the parameter groups of some networks.
import copy
import json

import torch
from k_diffusion import utils

from golden import File, end, load_model, path, same, schedulers_of_today

schedulers_of_today()
data = File("optimizer_data.safetensors")


def run(name):
    f = File(f"optimizer_{name}.safetensors")
    settings, lr_sched, ema_sched = f.json("optimizer"), f.json("lr_sched"), f.json("ema_sched")
    clip, accum, micro_steps = (float(f.meta[key]) for key in ("clip", "grad_accum_steps", "micro_steps"))
    _, model, denoiser = load_model("v2_global")
    average = copy.deepcopy(model)
    groups = model.param_groups(settings["lr"])
    names = {id(p): n for n, p in model.named_parameters()}
    same(f.name, "groups", [[names[id(p)] for p in g["params"]] for g in groups], f.json("groups"))
    if settings["type"] == "adamw":
        opt = torch.optim.AdamW(groups, lr=settings["lr"], betas=tuple(settings["betas"]), eps=settings["eps"],
                                weight_decay=settings["weight_decay"])
    else:
        opt = torch.optim.SGD(groups, lr=settings["lr"], momentum=settings.get("momentum", 0),
                              nesterov=settings.get("nesterov", False), weight_decay=settings["weight_decay"])
    sched = utils.ConstantLRWithWarmup(opt, warmup=lr_sched["warmup"])
    ema = utils.EMAWarmup(power=ema_sched["power"], max_value=ema_sched["max_value"])
    losses, norms, rates, decays = [], [], [], []
    for k in range(int(micro_steps)):
        x0, noise, sigma, aug_cond = (data[key][k] for key in ("x0", "noise", "sigma", "aug_cond"))
        loss = denoiser.loss(x0, noise, sigma, aug_cond=aug_cond)
        losses.append(loss.detach())
        (loss.mean() / accum).backward()
        last = (k + 1) % accum == 0
        if last:
            rates.append([g["lr"] for g in opt.param_groups])
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip or float("inf")))
            opt.step()
            opt.zero_grad()
        sched.step()
        if last:
            decays.append(ema.get_value())
            utils.ema_update(model, average, ema.get_value())
            ema.step()
    f.put("losses", torch.stack(losses))
    f.put("grad_norms", norms)
    f.put("lrs", rates)
    f.put("ema_decay", decays)
    for of, net in (("model", model), ("ema", average)):
        for n, p in net.named_parameters():
            f.put(f"{of}.{n}", p)
    f.done()


for name in ("adamw_noclip", "adamw_clip1", "sgd_momentum", "sgd_nesterov", "adamw_accum2"):
    run(name)

with open(path("param_groups.json")) as text:
    for case, stored in json.load(text).items():
        _, model, _ = load_model(case)
        groups, names = model.param_groups(1.0), {id(p): n for n, p in model.named_parameters()}
        same("param_groups.json", f"{case}: names", [[names[id(p)] for p in g["params"]] for g in groups], stored["names"])
        same("param_groups.json", f"{case}: rates", [g["lr"] for g in groups], stored["lr_scale"])
        same("param_groups.json", f"{case}: decay", [g.get("weight_decay", "config") for g in groups], stored["weight_decay"])
end()
