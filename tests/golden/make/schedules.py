# schedules.safetensors: noise levels by k-diffusion's get_sigmas_*, in float64, and in float32 as a user's program has them.
# discrete_denoisers.safetensors: the levels of guided-diffusion's schedules of 1000 steps, the way between levels and steps,
# and k-diffusion's wrappers of v and of discrete models around f(x, t) = 0.3 x + sin(x + 0.01 t).
# seed_diffusion.safetensors is not made here.
import numpy
import torch

from golden import DTYPE, File, end, load_guided
from k_diffusion import external, sampling

f = File("schedules.safetensors")
for dtype, suffix in ((torch.float64, ""), (torch.float32, ".float32")):
    torch.set_default_dtype(dtype)
    for name, args in f.json("params").items():
        f.put(name + suffix, getattr(sampling, "get_sigmas_" + name.split(".")[0])(**args), 1e-6 if suffix else None)
torch.set_default_dtype(DTYPE)
f.done()

load_guided()
from guided_diffusion.gaussian_diffusion import get_named_beta_schedule

f = File("discrete_denoisers.safetensors")


def toy(x, t):
    return 0.3 * x + torch.sin(x + 0.01 * t.view(-1, 1, 1, 1))


class CompVis:
    """What CompVisDenoiser expects of a model."""

    def __init__(self, alphas_cumprod):
        self.alphas_cumprod = alphas_cumprod

    def apply_model(self, x, t):
        return toy(x, t)


tables = {}


def of(name, alphas, quantize, wrapper=external.DiscreteVDDPMDenoiser):
    """Levels are computed in float32 from rounded products. One machine's float32 powers and logarithms are not another's, to the
    last bit, so what follows from the tables is computed from the stored ones."""
    model = CompVis(alphas) if wrapper is external.CompVisDenoiser else toy
    args = () if wrapper is external.CompVisDenoiser else (alphas,)
    d = wrapper(model, *args, quantize=quantize)
    if name not in tables:
        tables[name] = d.sigmas, d.log_sigmas
    d.sigmas, d.log_sigmas = f[f"{name}.sigmas_float32"], f[f"{name}.log_sigmas_float32"]
    return d


for name in ("linear", "cosine"):
    alphas = torch.from_numpy(numpy.cumprod(1 - get_named_beta_schedule(name, 1000)))
    f.put(f"{name}.alphas_cumprod_float64", alphas)
    f.put(f"{name}.alphas_cumprod_float32", alphas)
    f.put(f"{name}.sigmas_float64", ((1 - alphas) / alphas) ** 0.5)
    schedule = of(name, f.stored[f"{name}.alphas_cumprod_float32"], False)
    f.put(f"{name}.sigmas_float32", tables[name][0])
    f.put(f"{name}.log_sigmas_float32", tables[name][1])
    f.put(f"{name}.sigma_to_t_cont", schedule.sigma_to_t(f["probe_sigma"], False))
    f.put(f"{name}.sigma_to_t_quant", schedule.sigma_to_t(f["probe_sigma"], True))
    f.put(f"{name}.t_to_sigma", schedule.t_to_sigma(f["probe_t"]))
    for n in (1, 2, 10):
        f.put(f"{name}.get_sigmas_{n}", schedule.get_sigmas(n))
    f.put(f"{name}.get_sigmas_all", schedule.get_sigmas())

alphas = f.stored["linear.alphas_cumprod_float32"]
x, noise, sigma = f["toy.x"], f["toy.noise"], f["toy.sigma"]
v = external.VDenoiser(toy)
f.put("toy.vdenoiser.t", v.sigma_to_t(sigma))
f.put("toy.vdenoiser.sigma", v.t_to_sigma(v.sigma_to_t(sigma)))
for name, d in (("vdenoiser", v),
                ("compvis_eps_cont", of("linear", alphas, False, external.CompVisDenoiser)),
                ("compvis_eps_quant", of("linear", alphas, True, external.CompVisDenoiser)),
                ("discrete_v_cont", of("linear", alphas, False)), ("discrete_v_quant", of("linear", alphas, True))):
    f.put(f"toy.{name}.denoised", d(x, sigma))
    f.put(f"toy.{name}.loss", d.loss(x, noise, sigma))
f.done()
end()
