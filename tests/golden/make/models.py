# v2_*, v1t_*, unet_*: k-diffusion's networks and denoisers from a case's config, weights and inputs: F, D, the gradient of
# sum(D * v) with respect to x, the loss of each image, and the gradient of the mean loss with respect to every parameter.
# model_sampling.safetensors: samplers run on two of them. log_likelihood.safetensors: by torchdiffeq.
# Words after the script's name choose: cases, model_sampling, log_likelihood.
import glob
import os

import torch
from k_diffusion import sampling

from golden import DTYPE, FOLDER, File, end, load_model, words

CONDITIONS = ("aug_cond", "class_cond", "mapping_cond", "unet_cond", "cross_cond", "cross_cond_padding")


def case(name):
    io, grads = File(f"{name}.io.safetensors"), File(f"{name}.grads.safetensors")
    config, inner, denoiser = load_model(name)
    given = {c: io[c] for c in CONDITIONS if c in io}
    x, sigma = io["x"].requires_grad_(), io["sigma"]
    c_in = denoiser.get_scalings(sigma)[-1].view(-1, 1, 1, 1)
    if "logvar" in io:
        out, logvar = inner(x * c_in, sigma, return_variance=True, **given)
        io.put("logvar", logvar)
    else:
        out = inner(x * c_in, sigma, **given)
    io.put("inner_out", out)
    denoised = denoiser(x, sigma, **given)
    io.put("denoised", denoised)
    io.put("vjp_x", torch.autograd.grad((denoised * io["v"]).sum(), x)[0])
    inner.zero_grad()
    loss = denoiser.loss(io["x0"], io["noise"], sigma, **given)
    loss.mean().backward()
    io.put("loss", loss)
    of = {n: p.grad for n, p in inner.named_parameters() if p.grad is not None}
    most = max(g.abs().max().item() for g in of.values())
    for key in grads.stored:
        grads.put(key, of[key[len("grad."):]], least=most / 1000)
    assert set(of) == {key[len("grad."):] for key in grads.stored} | set(io.json("zero_grad_params")), name
    io.done()
    grads.done()


def model_sampling():
    f = File("model_sampling.safetensors")
    run = {"dpmpp_2m_sde_heun_eta0": lambda d, x: sampling.sample_dpmpp_2m_sde(d, x, f["sigmas"], eta=0.0, solver_type="heun", disable=True),
           "heun": lambda d, x: sampling.sample_heun(d, x, f["sigmas"], disable=True),
           "lms": lambda d, x: sampling.sample_lms(d, x, f["sigmas"], disable=True)}
    _, _, denoiser = load_model("v2_global")
    sigma_max = f.stored["sigmas"][0]
    with torch.no_grad():
        for name, sampler in run.items():
            f.put(f"v2_global.{name}", sampler(denoiser, (f.stored["v2_global.unit"] * sigma_max).to(DTYPE)))
        _, _, guided = load_model("v2_neighborhood_k7")
        classes = f["v2_neighborhood_k7.class_cond"]

        def with_guidance(x, sigma):
            none = torch.full_like(classes, 10)
            uncond, cond = guided(torch.cat([x, x]), torch.cat([sigma, sigma]), class_cond=torch.cat([none, classes])).chunk(2)
            return uncond + 2.5 * (cond - uncond)

        f.put("v2_neighborhood_k7.cfg2.5.dpmpp_2m_sde_heun_eta0",
              run["dpmpp_2m_sde_heun_eta0"](with_guidance, (f.stored["v2_neighborhood_k7.unit"] * sigma_max).to(DTYPE)))
    f.done()


def log_likelihood():
    f = File("log_likelihood.safetensors")
    _, _, denoiser = load_model("v2_global")
    mu = f["gauss.mu"]

    def gauss(x, sigma):
        s = sigma.view(-1, 1, 1, 1) ** 2
        return (mu * s + x / 4) / (s + 1 / 4)

    for name, what in f.json("runs").items():
        if "fevals" not in what or "ll" in what:
            continue
        who, low, high, atol, rtol = split(name)
        bits = f[f"{who}.bits"]
        sampling.torch.randint_like = lambda x, *_: bits
        ll, info = sampling.log_likelihood({"gauss": gauss, "model": denoiser}[who], f[f"{who}.x"], float(low), float(high),
                                           atol=float(atol), rtol=float(rtol))
        assert info["fevals"] == what["fevals"], (name, info)
        f.put(f"{name}.ll", ll)
    normal = torch.distributions.Normal
    for low, high in (("0.01", "80.0"), ("0.03", "14.6")):
        x, a, b = f["gauss.x"], float(low), float(high)
        ratio = ((0.25 + b * b) / (0.25 + a * a)) ** 0.5
        end_of_path = mu + (x - mu) * ratio
        exact = normal(0, b).log_prob(end_of_path).flatten(1).sum(1) + x[0].numel() * torch.tensor(ratio).log()
        f.put(f"gauss.min{low}.max{high}.ll_ode_exact", exact)
        f.put(f"gauss.min{low}.max{high}.log_density_exact", normal(mu, (0.25 + a * a) ** 0.5).log_prob(x).flatten(1).sum(1))
    f.done()


def split(name):
    """gauss.min0.01.max80.0.atol0.0001.rtol0.0001"""
    who, rest = name.split(".min")
    low, rest = rest.split(".max")
    high, rest = rest.split(".atol")
    return who, low, high, *rest.split(".rtol")


cases = sorted(os.path.basename(p)[:-len(".config.json")] for p in glob.glob(os.path.join(FOLDER, "*_*.config.json")))
others = {"model_sampling": model_sampling, "log_likelihood": log_likelihood}
for name in words or [*cases, *others]:
    others[name]() if name in others else case(name)
end()
