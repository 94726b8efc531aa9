# ops.safetensors: single operations by k-diffusion's own functions (guided-diffusion's for group norm and attention), and the
# gradient of sum(out * v) with respect to each input that has one in the file.
import torch
from torch.nn import functional as F

from golden import DTYPE, File, end, load_guided, neighborhood_attention
from k_diffusion import layers
from k_diffusion.models import axial_rope, image_transformer_v1 as v1, image_transformer_v2 as v2

guided_nn, guided = load_guided()
f = File("ops.safetensors")


def op(name, inputs, function):
    """function(inputs...) is out; gradients of the inputs that have one stored."""
    given = [f[f"{name}.{i}"].requires_grad_() for i in inputs]
    out = function(*given)
    f.put(f"{name}.out", out)
    wanted = [(i, x) for i, x in zip(inputs, given) if f"{name}.grad.{i}" in f]
    for (i, _), g in zip(wanted, torch.autograd.grad((out * f[f"{name}.v"]).sum(), [x for _, x in wanted])):
        f.put(f"{name}.grad.{i}", g)


def with_weights(module, **weights):
    """Calls the module with tensors in place of its parameters and buffers."""
    return lambda *args: torch.func.functional_call(module, weights, args)


op("rms_norm", ["x", "scale"], lambda x, scale: v2.rms_norm(x, scale, 1e-6))
op("linear_geglu", ["x", "weight"], v2.linear_geglu)
op("cosine_sim_q", ["q", "scale"], lambda q, scale: v2.scale_for_cosine_sim(q, f["cosine_sim_q.k"], scale[:, None, None], 1e-6)[0])
op("rope_v2", ["x"], lambda x: v2.apply_rotary_emb(x, f["rope_v2.theta"]))
for name in ("natten_7x7_k7", "natten_6x9_k3", "natten_8x5_k5"):
    op(name, ["q", "kk", "vv"], lambda q, k, v: neighborhood_attention(q, k, v, int(name[-1])))
for name in ("window_8x8_w4_s0", "window_8x8_w4_s2", "window_4x8_w4_s2", "window_6x6_w3_s1"):
    h, w, size, shift = (int(n) for n in (name[7], name[9], name[12], name[15]))
    op(name, ["q", "kk", "vv"], lambda q, k, v: v2.apply_window_attention(size, shift, q, k, v, scale=1.0))
    f.put(f"{name}.mask", v2.make_shifted_window_masks(h // size, w // size, size, size, shift))
op("token_merge", ["x", "weight"], lambda x, w: with_weights(v2.TokenMerge(5, 7, (2, 3)), **{"proj.weight": w})(x))
op("token_split", ["x", "skip", "weight", "fac"],
   lambda x, skip, w, fac: with_weights(v2.TokenSplit(6, 5), **{"proj.weight": w, "fac": fac})(x, skip))
op("fourier", ["x", "weight"], lambda x, w: with_weights(layers.FourierFeatures(2, 8), weight=w)(x))
op("down2d", ["x"], layers.Downsample2d())
op("up2d", ["x"], layers.Upsample2d())
op("adagn", ["x", "cond", "weight", "bias"],
   lambda x, cond, w, b: with_weights(layers.AdaGN(6, 8, 2), **{"mapper.weight": w, "mapper.bias": b})(x, {"cond": cond}))
op("qkv_new_order", ["qkv"], guided.QKVAttention(2))
op("qkv_old_order", ["qkv"], guided.QKVAttentionLegacy(2))
op("groupnorm32", ["x", "weight", "bias"], lambda x, w, b: with_weights(guided_nn.normalization(64), weight=w, bias=b)(x))
op("gelu", ["x"], F.gelu)
op("silu", ["x"], guided_nn.SiLU())
op("v1_qk_norm", ["x", "scale"], lambda x, s: with_weights(v1.QKNorm(2), scale=s)(x))
op("v1_rope", ["x", "freqs_h", "freqs_w"], lambda x, h, w: with_weights(axial_rope.AxialRoPE(16, 2), freqs_h=h, freqs_w=w)(
    x, axial_rope.make_axial_pos(2, 3, 0.5)))

# Positions of the tokens of a grid, of the grid after a merge, and with another aspect ratio
for name in [name for name in f.stored if name.startswith("pos.")]:
    size, *rest = name[4:].split(".", 1)
    h, w = map(int, size.split("x"))
    aspect = float(rest[0][6:]) if rest and rest[0].startswith("aspect") else 1.0
    pos = axial_rope.make_axial_pos(h, w, aspect).view(h, w, 2)
    f.put(name, v2.downscale_pos(pos) if rest == ["down"] else pos)

# First values of the rotary frequencies, in float32 as the models make them
torch.set_default_dtype(torch.float32)
for name in [name for name in f.stored if name.startswith("freqs_")]:
    dim, heads = (int(part.strip("dimheads")) for part in name.split(".")[1:])
    rope = v2.AxialRoPE(dim, heads).freqs if name.startswith("freqs_v2") else axial_rope.AxialRoPE(dim, heads).freqs_h
    f.put(name, rope)
torch.set_default_dtype(DTYPE)

for name in [name for name in f.stored if name.startswith("t_emb.max")]:
    period, dim = (int(part.strip("max_perioddim")) for part in name.split(".")[1:])
    f.put(name, guided_nn.timestep_embedding(f["t_emb.t"], dim, period))
f.done()
end()
