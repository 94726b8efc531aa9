"""Features of the same images by kd-fid and by pytorch-fid, alternating in one run: images a second and seconds of CPU an image.

Needs: pip install pytorch-fid. Usage: peer_fid.py BUILD [IMAGES] [ROUNDS] [THREADS]. Weights are random on both sides (no download);
they do not change the time. kd-fid is timed as a program from its start to the statistics it writes, without what it takes for two
images; pytorch-fid only in the function that reads the files and runs the network, at its default of 50 images a batch. On a machine
that does other work too, seconds of CPU with 1 thread are what can be trusted.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

build, images = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
rounds, threads = int(sys.argv[3]) if len(sys.argv) > 3 else 3, int(sys.argv[4]) if len(sys.argv) > 4 else 2
os.environ["OMP_NUM_THREADS"] = str(threads)
import numpy as np
import torch
import pytorch_fid.inception
from PIL import Image
from pytorch_fid.fid_score import get_activations

torch.set_num_threads(threads)
torch.nn.Module.load_state_dict, load = lambda self, *a, **k: None, torch.nn.Module.load_state_dict
pytorch_fid.inception.load_state_dict_from_url = lambda *a, **k: {}
network = pytorch_fid.inception.InceptionV3([3]).eval()
torch.nn.Module.load_state_dict = load

folder = pathlib.Path(tempfile.mkdtemp())
noise = np.random.default_rng(0)
for i in range(images):
    small = Image.fromarray(noise.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    small.resize((32, 32), Image.BICUBIC).save(folder / f"{i:05d}.png")
for name, limit in ("all", images), ("two", 2):
    subprocess.run([f"{build}/kd-prep", "-q", folder, "--size", "32", "--limit", str(limit), "-o", folder / name], check=True)


def timed(f):
    def cpu():
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    wall, spent = time.time(), cpu()
    f()
    return np.array([time.time() - wall, cpu() - spent])


def ours(name):
    subprocess.run([f"{build}/kd-fid", "-q", "--features", "random", "--threads", str(threads), "--write-ref", "/dev/null", folder / name],
                   check=True)


def peer():
    get_activations(sorted(folder.glob("*.png")), network, 50, 2048, "cpu", num_workers=0)


results = {"kd-fid": [], "pytorch-fid": []}
for _ in range(rounds):
    results["kd-fid"].append((timed(lambda: ours("all")) - timed(lambda: ours("two"))) / (images - 2))
    results["pytorch-fid"].append(timed(peer) / images)
for name, each in results.items():
    wall, spent = (statistics.median(e[k] for e in each) for k in (0, 1))
    print(f"{name}: {1 / wall:.2f} images/s, {spent:.3f} s of CPU an image ({images} images, {threads} threads, {rounds} rounds)")
