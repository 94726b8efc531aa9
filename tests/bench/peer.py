"""The same work as `make bench`, by k-diffusion in PyTorch: one training step and one denoiser call of a config.

Needs: pip install torch k-diffusion. Usage: peer.py CONFIG BATCH [STEPS]. Prints one line: seconds a training step and a
denoiser call (medians), images a second, CPU seconds an image, peak memory. Neighborhood attention needs natten and is skipped here.
"""
import json
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("K_DIFFUSION_USE_COMPILE", "0")     # eager: compiling takes a minute and is no faster on a CPU
start = time.time()
import torch
import k_diffusion as K

path, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 5
torch.manual_seed(0)
config = K.config.load_config(json.load(open(path)))
model_config = config["model"]
inner = K.config.make_model(config)
model = K.config.make_denoiser_wrapper(config)(inner)
opt = torch.optim.AdamW(inner.param_groups(config["optimizer"]["lr"]), betas=tuple(config["optimizer"]["betas"]))
density = K.config.make_sample_density(model_config)
ema = [p.detach().clone() for p in inner.parameters()]
shape = [batch, model_config["input_channels"], *model_config["input_size"]]
classes = config["dataset"]["num_classes"]


def extra():
    return {"class_cond": torch.randint(0, classes + 1, [batch])} if classes else {}


def train_step():
    loss = model.loss(torch.rand(shape) * 2 - 1, torch.randn(shape), density([batch]), aug_cond=torch.zeros(batch, 9), **extra()).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(inner.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    with torch.no_grad():
        for e, p in zip(ema, inner.parameters()):
            e.lerp_(p, 1e-3)


def denoise():
    with torch.no_grad():
        model(torch.randn(shape), torch.full([batch], 1.0), **extra())


def times(f, n):
    """Seconds of each call, and the mean of their CPU seconds."""
    spent, cpu = [], time.process_time()
    for _ in range(n):
        t = time.time()
        f()
        spent.append(time.time() - t)
    return spent, (time.process_time() - cpu) / n


inner.train()
train_step()
ready = time.time() - start
spent, train_cpu = times(train_step, steps)
train = statistics.median(spent)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
inner.eval()
denoise()
spent, call_cpu = times(denoise, steps)
call = statistics.median(spent)
print(f"peer {path.split('/')[-1]} batch {batch}: train {train:.3f} s/step {batch / train:.2f} images/s "
      f"{train_cpu / batch:.3f} CPU s/image, denoise {call:.3f} s {batch / call:.2f} images/s {call_cpu / batch:.3f} CPU s/image, "
      f"first step done after {ready:.1f} s, peak {peak:.0f} MB")
