# encoders.safetensors: features of CLIP's and DINOv2's image encoders in float64, by openai/CLIP, open_clip_torch 3.3.0 and
# facebookresearch/dinov2 (GitHub; PYTHONPATH names the folders of CLIP and dinov2), with weights by a rule or from clip_small.pt
# and dinov2_small.pth, of the pictures of inception.py.
#
# The rule: offset + factor u, u as in inception.py, with names as in a state dict of the encoder alone:
#   vectors NAME.weight 1 + 0.4u    NAME.gamma 0.5 + 0.4u    biases 0.4u    embeddings, tokens, pos_embed u
#   matrices 2u sqrt(6 / fan_in)
import numpy
import open_clip.transformer
import torch
from clip import model as clip
from torch import nn
from torch.nn import functional as F

from golden import DTYPE, File, end, mixed, path, picture

# Both compute parts in float32 whatever the type of the rest: CLIP its norms, DINOv2 the interpolation of its positions.
torch.Tensor.float = lambda x: x.to(DTYPE)
clip.LayerNorm.forward = nn.LayerNorm.forward

from dinov2.models.vision_transformer import DinoVisionTransformer

CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
DINOV2 = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def by_rule(module):
    for name, p in module.named_parameters():
        u = torch.from_numpy(mixed(name, numpy.arange(p.numel())) / 2 ** 32 - 0.5)
        if p.ndim == 1 and name.endswith(".weight"):
            w = 1 + 0.4 * u
        elif name.endswith(".gamma"):
            w = 0.5 + 0.4 * u
        elif name.endswith("bias"):
            w = 0.4 * u
        elif name.endswith(("_embedding", "_token", "pos_embed")):
            w = u
        else:
            w = 2 * u * (6 / (p.numel() / len(p))) ** 0.5
        p.data = w.to(torch.float32).to(DTYPE).view(p.shape)
    return module


def stored(module, name, prefix=""):
    weights = torch.load(path(name), weights_only=True)
    module.load_state_dict({key[len(prefix):]: w.to(DTYPE) for key, w in weights.items() if key.startswith(prefix)})
    return module


def images(side, normalisation):
    pixels = torch.stack([picture("image0", 13, side, side), picture("image1", 5, side, side)]).to(DTYPE)
    mean, deviation = (torch.tensor(n).view(3, 1, 1) for n in normalisation)
    return (pixels / 255 - mean) / deviation


def dinov2(side, width=128, heads=2):
    return DinoVisionTransformer(img_size=side, patch_size=14, embed_dim=width, depth=2, num_heads=heads, init_values=1.0,
                                 block_chunks=0)


f = File("encoders.safetensors")
networks = {
    "clip": (by_rule(clip.VisionTransformer(24, 8, 128, 2, 2, 48)), 24),
    "clip_gelu": (by_rule(open_clip.transformer.VisionTransformer(24, 8, 128, 2, 2, 4.0, output_dim=48)), 24),
    "clip_small": (stored(clip.VisionTransformer(16, 8, 16, 2, 1, 8), "clip_small.pt", "visual."), 16),
    "dinov2": (by_rule(dinov2(84)), 224),
    "dinov2_same": (by_rule(dinov2(224)), 224),
    "dinov2_518": (by_rule(dinov2(518)), 224),
    "dinov2_small": (stored(dinov2(70, 16, 1), "dinov2_small.pth"), 224),
}
with torch.no_grad():
    for name, (network, side) in networks.items():
        f.put(name, network.to(DTYPE).eval()(images(side, CLIP if "clip" in name else DINOV2)))
f.done()
end()
