# What the scripts of this folder share: reading a reference file, collecting what a script computes, and comparing.
#
# A script takes the inputs and weights from the committed file, computes every result again with the peer's own code, and
# compares it with the committed one; what it does not compute is an input. It prints the largest error, and its exit status is
# 1 if one is above the script's limit. With --write FOLDER it also writes the files there, with what it computed.
#
# Everything is computed in float64: also what the peers compute in float32 by default (positions, angles, embeddings), because
# float64 is made the default type here. Errors are max|a - b| / max|b| of a tensor. With --float32 everything is computed in float32
# instead, and the errors are those that tolerances.json holds, as far as two machines agree about them; none is too large then.
import argparse
import json
import math
import os
import sys
import zlib

os.environ.setdefault("K_DIFFUSION_USE_COMPILE", "0")

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import save_file

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_parser = argparse.ArgumentParser()
_parser.add_argument("--write", metavar="FOLDER")
_parser.add_argument("--verbose", action="store_true", help="print the error of each tensor")
_parser.add_argument("--float32", action="store_true", help="compute in float32")
_options, words = _parser.parse_known_args()
DTYPE = torch.float32 if _options.float32 else torch.float64
torch.set_default_dtype(DTYPE)
_failed, _lists = False, {}


def path(name):
    return os.path.join(FOLDER, name)


class File:
    """A reference file: f[name] is a tensor, floating-point ones in the type to compute in; f.put(name, value) a result."""

    def __init__(self, name, limit=1e-12):
        self.name, self.limit, self.new, self.errors = name, limit, {}, {}
        with safe_open(path(name), "pt") as f:
            self.meta = f.metadata() or {}
            self.stored = {key: f.get_tensor(key) for key in f.keys()}

    def json(self, key):
        return json.loads(self.meta[key])

    def __contains__(self, name):
        return name in self.stored

    def __getitem__(self, name):
        x = self.stored[name]
        return x.to(DTYPE, copy=True) if x.is_floating_point() else x.clone()

    def put(self, name, value, limit=None, least=0):
        """A result under the name it has in the file. It is rounded to the type that is stored; float32 results may then differ
        by their rounding. `least`: errors are relative to this where the tensor's maximum is smaller."""
        want = self.stored[name]
        got = torch.as_tensor(value).detach().to(want.dtype).reshape(want.shape).contiguous()
        self.new[name] = got
        limit = limit or (max(self.limit, 1.2e-7) if want.dtype == torch.float32 else self.limit)
        if _options.float32 and want.is_floating_point():
            limit, got, want = float("inf"), torch.as_tensor(value).detach().reshape(want.shape).double(), want.double()
        if want.is_floating_point():
            most = want.double().abs().max().item() if want.numel() else 0
            # where both are infinite or NaN they agree
            differ = (got.double() - want.double()).abs()
            differ = torch.where((got == want) | (got.isnan() & want.isnan()), torch.zeros_like(differ), differ)
            error = (differ.max().item() if want.numel() else 0) / (max(most, least) or 1)
        else:
            error = 0.0 if torch.equal(got, want) else float("inf")
        self.errors[name] = (error, limit)

    def done(self):
        """Prints the worst errors; writes the file if that was asked for."""
        global _failed
        by = lambda name: self.errors[name][0]
        for name in sorted(self.errors):
            error, limit = self.errors[name]
            if _options.verbose or not error <= limit:
                print(f"    {name}: {error:.2g}" + ("" if error <= limit else f", more than {limit:.2g}"))
                _failed |= not error <= limit
        if _options.float32 and self.name.endswith(".grads.safetensors"):
            differ, all_of = (sum(x.double().pow(2).sum() for x in xs).sqrt() for xs in (
                (self.new[name].double() - self.stored[name].double() for name in self.new), (self.stored[name] for name in self.new)))
            print(f"{self.name}: all together {differ / all_of:.2g} (root of the sum of squares)")
        for kind, of in (("F64", torch.float64), ("F32", torch.float32)):
            names = [name for name in self.new if self.stored[name].dtype == of]
            if names:
                worst = max(names, key=by)
                print(f"{self.name}: {len(names)} {kind} results, largest error {by(worst):.2g} ({worst})")
        others = sum(not self.stored[name].is_floating_point() for name in self.new)
        if others:
            print(f"{self.name}: {others} results of integers")
        print(f"{self.name}: {len(self.stored) - len(self.new)} tensors are inputs")
        if _options.write:
            to = os.path.join(_options.write, self.name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            save_file({**self.stored, **self.new}, to, metadata=self.meta or None)


def compare(name, what, got, want, limit=1e-12):
    """The same for a list of numbers in a JSON file; end() prints the largest errors."""
    global _failed
    got, want = (torch.as_tensor(x, dtype=torch.float64, device="cpu") for x in (got, want))
    error = ((got - want).abs().max() / want.abs().max()).item() if got.shape == want.shape else float("inf")
    if _options.verbose or not error <= limit:
        print(f"    {name}: {what}: {error:.2g}" + ("" if error <= limit else f", more than {limit:.2g}"))
    _failed |= not error <= limit
    _lists.setdefault(name, []).append(error)


def same(name, what, got, want):
    """The same for names, shapes and configs, which must be equal."""
    global _failed
    if got != want:
        print(f"    {name}: {what}: differs")
    _failed |= got != want
    _lists.setdefault(name, []).append(0.0 if got == want else float("inf"))


def end():
    for name, errors in _lists.items():
        print(f"{name}: {len(errors)} comparisons, largest error {max(errors):.2g}")
    sys.exit(1 if _failed else 0)


def mixed(name, i):
    """Numbers 0 .. 2^32 - 1 by a rule: i * 2654435761 + crc32(name) modulo 2^32, its bits then mixed."""
    h = (i.astype(numpy.uint64) * 2654435761 + zlib.crc32(name.encode())) % 2 ** 32
    for shift, factor in ((16, 0x85ebca6b), (13, 0xc2b2ae35)):
        h ^= h >> numpy.uint64(shift)
        h = h * factor % 2 ** 32
    return h ^ (h >> numpy.uint64(16))


def picture(name, b, h, w):
    """[3,H,W] bytes in blocks of b x b pixels: the top byte of the number for (c * 1000 + y / b) * 1000 + x / b, rounded down."""
    c, y, x = numpy.ogrid[:3, :h, :w]
    return torch.from_numpy((mixed(name, (c * 1000 + y // b) * 1000 + x // b) >> numpy.uint64(24)).astype(numpy.uint8))


def schedulers_of_today():
    """PyTorch's schedulers lost the argument `verbose`, which k-diffusion's still pass on."""
    base = torch.optim.lr_scheduler.LRScheduler
    init = base.__init__
    base.__init__ = lambda self, optimizer, last_epoch=-1, verbose=False: init(self, optimizer, last_epoch)


def load_guided():
    """guided-diffusion computes some things in float32, whatever the type of the rest. It is imported from its source folder,
    which PYTHONPATH names."""
    from guided_diffusion import nn, unet

    def timestep_embedding(t, dim, max_period=10000):
        half = dim // 2
        angles = t[:, None].to(DTYPE) * torch.exp(-math.log(max_period) * torch.arange(half).to(DTYPE) / half)[None]
        return torch.cat([angles.cos(), angles.sin(), torch.zeros(len(t), dim % 2)], dim=-1)

    torch.Tensor.float = lambda x: x.to(DTYPE)
    nn.timestep_embedding = unet.timestep_embedding = timestep_embedding
    return nn, unet


def load_model(case):
    """A case's network with its weights, and the denoiser around it, by k-diffusion's own config and model code."""
    import types

    import k_diffusion as K
    from k_diffusion.models import image_transformer_v2 as v2

    v2.natten = types.SimpleNamespace(has_fused_na=lambda: True, functional=types.SimpleNamespace(na2d=neighborhood_attention))
    config = K.config.load_config(path(f"{case}.config.json"))
    weights = File(f"{case}.weights.safetensors")
    assert json.loads(weights.meta["config"]) == config, case
    inner = K.config.make_model(config)
    inner.load_state_dict({name: weights[name] for name in weights.stored})
    return config, inner.eval(), K.config.make_denoiser_wrapper(config)(inner)


def neighborhood_attention(q, k, v, kernel_size, scale=1.0):
    """natten's 2-D neighborhood attention, written out, because natten has no float64 on a CPU. q, k, v [N,H,W,heads,d]. A query
    in row i sees the rows start .. start + kernel_size - 1, start = clamp(i - kernel_size // 2, 0, H - kernel_size), and
    likewise columns."""
    _, h, w, _, _ = q.shape
    row, column = torch.arange(h), torch.arange(w)
    near = []
    for at, n in ((row, h), (column, w)):
        start = (at - kernel_size // 2).clamp(0, n - kernel_size)
        near.append((at[None, :] >= start[:, None]) & (at[None, :] < start[:, None] + kernel_size))
    mask = (near[0][:, None, :, None] & near[1][None, :, None, :]).reshape(h * w, h * w)
    q, k, v = (x.flatten(1, 2).transpose(1, 2) for x in (q, k, v))
    logits = (q @ k.transpose(-1, -2) * scale).masked_fill(~mask, -float("inf"))
    return (logits.softmax(-1) @ v).transpose(1, 2).unflatten(1, (h, w))
