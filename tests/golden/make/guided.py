# guided_*: guided-diffusion's UNetModel from a case's arguments, weights and inputs: its output, the mean squared error against
# `target` with its gradients, the timestep embedding, and k-diffusion's OpenAIDenoiser around it. guided_tiny and guided_seed
# have the output with unet.cu's longest period, 1000 in place of 10000, too.
import json
import types

import torch
from k_diffusion import external

from golden import DTYPE, File, end, load_guided, path, words

nn, unet = load_guided()
embedding = unet.timestep_embedding


def load(name):
    with open(path(f"{name}.args.json")) as text:
        model = unet.UNetModel(**json.load(text))
    if name == "guided_tiny":
        weights = torch.load(path("guided_tiny.zip.pt"), weights_only=True)
    else:
        weights = File(f"{name}.weights.safetensors").stored
    model.load_state_dict({key: w.to(DTYPE) for key, w in weights.items()})
    model.dtype = DTYPE
    return model.eval()


def wrapped(io, model, schedule, quantize, classes):
    """k-diffusion's wrapper with the stored tables (schedules.py says why)."""
    tables = File("discrete_denoisers.safetensors")
    diffusion = types.SimpleNamespace(alphas_cumprod=tables.stored[f"{schedule}.alphas_cumprod_float64"])
    d = external.OpenAIDenoiser(model, diffusion, quantize, io.meta["learn_sigma"] == "true")
    d.sigmas, d.log_sigmas = tables[f"{schedule}.sigmas_float32"], tables[f"{schedule}.log_sigmas_float32"]
    x, sigma = io["x"], io["openai.sigma"]
    name = f"openai_{schedule}_{'quant' if quantize else 'cont'}"
    io.put(f"{name}.t", d.sigma_to_t(sigma))
    io.put(f"{name}.denoised", d(x, sigma, **classes))
    io.put(f"{name}.loss", d.loss(x, io["target"][:, :x.shape[1]], sigma, **classes))


def case(name):
    io, model = File(f"{name}.io.safetensors"), load(name)
    classes = {"y": io["y"]} if "y" in io else {}
    x, t = io["x"].requires_grad_(), io["t"]
    out = model(x, t, **classes)
    loss = (out - io["target"]).pow(2).mean()
    loss.backward()
    for key, value in (("out", out), ("loss", loss), ("grad_x", x.grad), ("t_emb", embedding(t, model.model_channels))):
        io.put(key, value)
    if name != "guided_tiny":
        grads = File(f"{name}.grads.safetensors")
        of = {n: p.grad for n, p in model.named_parameters()}
        most = max(g.abs().max().item() for g in of.values())
        for key in grads.stored:
            grads.put(key, of[key[len("grad."):]], least=most / 1000)
        grads.done()
    with torch.no_grad():
        for schedule in ("linear", "cosine"):
            for quantize in (False, True):
                wrapped(io, model, schedule, quantize, classes)
        if "out_max_period_1000" in io:
            unet.timestep_embedding = lambda t, dim: embedding(t, dim, 1000)
            out = model(io["x"], t)
            io.put("out_max_period_1000", out)
            io.put("loss_max_period_1000", (out - io["target"]).pow(2).mean())
            unet.timestep_embedding = embedding
    io.done()


for name in words or ["guided_seed", "guided_tiny", "guided_class", "guided_conv"]:
    case(name)
end()
