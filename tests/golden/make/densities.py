# densities.safetensors: k-diffusion's densities of noise levels as functions of stored uniforms and normals.
# weightings.safetensors: the denoiser's factors, the weights of its loss, and the frequency weights and DCT of loss_scales.
# lr_ema.json: learning rates and the average's decay. gns.json: the gradient noise scale. configs/d_ff_v1.json.
import json
import math

import torch

from golden import File, compare, end, path, same, schedulers_of_today
from k_diffusion import config, gns, layers, utils

f = File("densities.safetensors")
u, normals = f["u"], f["randn"]
utils.stratified_with_settings = lambda shape, dtype=None, device=None: u.to(dtype)
utils.torch.rand = lambda shape, dtype=None, device=None: u.to(dtype or torch.float64)
utils.torch.randn = lambda shape, dtype=None, device=None: normals.to(dtype)
for name, density in f.json("densities").items():
    sample = config.make_sample_density({**f.json("model"), "sigma_sample_density": density})
    f.put(name, sample(u.shape, dtype=torch.float64))
    if f"{name}.float32" in f:
        f.put(f"{name}.float32", sample(u.shape, dtype=torch.float32), limit=1e-6)
for group, groups in ((0, 1), (2, 3)):
    f.put(f"stratified.group{group}of{groups}", utils.stratified_uniform(u.shape, group, groups))
f.done()

f = File("weightings.safetensors")
sigma = f["sigma"]
for name in f.stored:
    what, *rest = name.split(".", 1)
    if what == "weight":
        kind, d = rest[0].split(".sigma_data")
        f.put(name, layers.Denoiser(None, float(d), kind).weighting(sigma))
    elif what in ("c_skip", "c_out", "c_in"):
        d = float(rest[0][len("sigma_data"):])
        f.put(name, dict(zip(("c_skip", "c_out", "c_in"), layers.Denoiser(None, d).get_scalings(sigma)))[what])
    elif what == "freq_weight":
        size, scales = rest[0].split(".scales")
        f.put(name, layers.freq_weight_nd(tuple(map(int, size.split("x"))), int(scales)))
f.put("dct.y", layers.dct(f["dct.x"][None])[0])
f.done()

with open(path("lr_ema.json")) as text:
    stored = json.load(text)
steps = stored["steps"]
schedulers_of_today()
for case in stored["cases"]:
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    sched = getattr(utils, case["type"])(opt, **case["args"])
    rates = []
    for k in range(max(steps) + 1):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    compare("lr_ema.json", f"{case['type']} {case['args']}", [rates[k] for k in steps], case["lr"])
for case in stored["ema"]:
    sched, ema, decays, averages = utils.EMAWarmup(**case["args"]), torch.nn.Linear(1, 1, bias=False), [], []
    weights = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(ema.weight, 0.25)
    for k in range(max(steps) + 1):
        torch.nn.init.constant_(weights.weight, math.sin(0.01 * (k + 1)))
        decays.append(sched.get_value())
        utils.ema_update(weights, ema, sched.get_value())
        averages.append(ema.weight.item())
        sched.step()
    compare("lr_ema.json", f"decay {case['args']}", [decays[k] for k in steps], case["decay"])
    compare("lr_ema.json", f"average {case['args']}", [averages[k] for k in steps], case["ema"])
sched, stats, means = utils.EMAWarmup(power=0.6667, max_value=0.9999), {}, []
for loss in (1, 0.5, 0.25, 0.75, 0.1):
    utils.ema_update_dict(stats, {"loss": loss}, sched.get_value() ** (1 / 2))
    means.append(stats["loss"])
    sched.step()
compare("lr_ema.json", "running loss", means, stored["ema_stats"])

with open(path("gns.json")) as text:
    for run in json.load(text)["runs"]:
        scale, got, want = gns.GradientNoiseScale(run["beta"], run["eps"]), [], []
        for update in run["updates"]:
            value = scale.update(update["sq_norm_small"], update["sq_norm_big"], run["n_small"], run["n_big"])
            got.append([value, scale.get_gns(), *scale.get_stats(), scale.ema_sq_norm, scale.ema_var, scale.beta_cumprod])
            state = update["state"]
            want.append([update["gns"], update["get_gns"], *update["get_stats"], state["ema_sq_norm"], state["ema_var"],
                         state["beta_cumprod"]])
        for column, name in enumerate(("gns", "get_gns", "get_stats[0]", "get_stats[1]", "ema_sq_norm", "ema_var", "beta_cumprod")):
            compare("gns.json", name, [row[column] for row in got], [row[column] for row in want])

with open(path("configs/d_ff_v1.json")) as text:
    for width, d_ff in json.load(text)["d_ff"].items():
        same("configs/d_ff_v1.json", width, config.round_to_power_of_two(int(width) * 8 / 3, tol=0.05), d_ff)
end()
