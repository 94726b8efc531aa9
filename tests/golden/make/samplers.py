# samplers.safetensors, samplers_dpm.safetensors: k-diffusion's samplers on two denoisers with a formula, with the noise of
# noise_bank. The metadata `runs` has each run's function and arguments.
import inspect

import torch

from golden import File, end
from k_diffusion import sampling


def gauss(mu):
    """Data with mean mu in each pixel and deviation 1/2."""
    return lambda x, sigma: (mu * square(sigma) + x / 4) / (square(sigma) + 1 / 4)


def mix(x, sigma):
    """In each pixel two Gaussians with weights 0.3 and 0.7, means -1 and 0.75, deviations 0.25 and 0.5."""
    w, m, q = (torch.tensor(n).view(2, 1, 1, 1, 1) for n in ((0.3, 0.7), (-1, 0.75), (0.25, 0.5)))
    v = q ** 2 + square(sigma)
    r = (w.log() - v.log() / 2 - (x - m) ** 2 / (2 * v)).softmax(0)
    return (r * (m * square(sigma) + x * q ** 2) / v).sum(0)


def square(sigma):
    return sigma[:, None, None, None] ** 2


class Run:
    """The k-th time that a sampler asks for noise it gets noise_bank[k]. Counts that and the calls of the denoiser."""

    def __init__(self, f, denoiser):
        self.bank, self.denoiser = f["noise_bank"], denoiser
        self.model_calls, self.noise_args, self.traj, self.noise_calls = 0, [], [], 0

    def model(self, x, sigma):
        self.model_calls += 1
        return self.denoiser(x, sigma)

    def noise(self, *sigmas):
        self.noise_calls += 1
        self.noise_args.append([float(s) for s in sigmas])
        return self.bank[self.noise_calls - 1]

    def go(self, function, *args, **kwargs):
        sampling.torch.randn_like = lambda x: self.noise()           # of samplers without a noise_sampler
        if "noise_sampler" in inspect.signature(function).parameters:
            kwargs["noise_sampler"] = self.noise
        return function(self.model, *args, **kwargs, disable=True, callback=lambda info: self.traj.append(info["x"]))


def judge(f, name, run, x, what):
    f.put(name, x)
    assert (run.model_calls, run.noise_calls) == (what["model_calls"], what["noise_calls"]), name
    if f"{name}.noise_args" in f:
        f.put(f"{name}.noise_args", run.noise_args)
    if f"{name}.traj" in f:
        f.put(f"{name}.traj", torch.stack(run.traj))


f = File("samplers.safetensors")
denoisers = {"gauss": gauss(f["mu"]), "mix": mix}
for s in ("k10_80", "k10_14", "k20_80", "k20_14"):
    n, most = s[1:].split("_")
    sigmas = sampling.get_sigmas_karras(int(n), 0.01, {"80": 80.0, "14": 14.6}[most]).float()
    f.put(f"x.{s}", f["unit"].float() * sigmas[0], limit=1e-6)
for name, what in f.json("runs").items():
    denoiser, schedule, _ = name.split(".", 2)
    run = Run(f, denoisers[denoiser])
    x = run.go(getattr(sampling, what["function"]), f[f"x.{schedule}"], f[f"sigmas.{schedule}"], **what["kwargs"])
    judge(f, name, run, x, what)
f.done()

f = File("samplers_dpm.safetensors", limit=1e-10)
denoisers = {"gauss": gauss(f["mu"]), "mix": mix}
for name, what in f.json("runs").items():
    denoiser, most = name.split(".max")
    start = most.split(".fast")[0].split(".adaptive")[0]
    run = Run(f, denoisers[denoiser])
    info = {"return_info": True} if what["info"] else {}
    x = run.go(getattr(sampling, what["function"]), f[f"x.{start}"], what["sigma_min"], what["sigma_max"], **what["kwargs"], **info)
    if info:
        x, got = x
        assert {key: got[key] for key in what["info"]} == what["info"], (name, got, what["info"])
    judge(f, name, run, x, what)
f.done()
end()
