# One object by torch.save, in each of its containers and pickle protocols; and tensors with more state than a view of a storage.
# PyTorch 2.15, Python 3.11: python make.py DIR
import collections
import sys

import torch

z = torch.complex(torch.arange(4.0), torch.tensor([0.5, -1.5, 0.0, 2.5]))
OBJECT = collections.OrderedDict(
    w=torch.arange(6.0).reshape(2, 3), half=torch.tensor([1.5, -2.0]).half(), count=torch.tensor(7), values={"n": 7, "x": 0.5, "text": "a"},
    p=torch.nn.Parameter(torch.tensor([3.0])))
NEGATIVE = {
    "plain": torch.tensor([0.0, 1.0, -2.0]), "f32": torch._neg_view(torch.tensor([0.0, 1.0, -2.0])),
    "f64": torch._neg_view(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)), "f16": torch._neg_view(torch.tensor([1.0, -2.0]).half()),
    "bf16": torch._neg_view(torch.tensor([1.0, -2.0]).bfloat16()), "i64": torch._neg_view(torch.tensor([1, -(1 << 62), 0])),
    "u8": torch._neg_view(torch.tensor([1, 0, 255], dtype=torch.uint8)), "strided": torch._neg_view(torch.arange(6.0).reshape(2, 3).t()),
    "imag": z.conj().imag, "parameter": torch.nn.Parameter(torch._neg_view(torch.tensor([1.0])))}

for protocol in (2, 3, 4, 5):
    for container in ("zip", "legacy"):
        torch.save(OBJECT, f"{sys.argv[1]}/{container}{protocol}.pth", pickle_protocol=protocol,
                   _use_new_zipfile_serialization=container == "zip")
for container in ("zip", "legacy"):
    path = f"{sys.argv[1]}/negative.{container}.pth"
    torch.save(NEGATIVE, path, _use_new_zipfile_serialization=container == "zip")
    print({k: v.resolve_neg().tolist() for k, v in torch.load(path).items()})
torch.save({"z": z.conj()}, f"{sys.argv[1]}/conjugate.pth")
p = torch.nn.Parameter(torch.ones(2))
p.note = 1                                               # torch._utils._rebuild_parameter_with_state
torch.save({"p": p}, f"{sys.argv[1]}/parameter_state.pth")
torch.save({"u": torch.ones(2, dtype=torch.uint16)}, f"{sys.argv[1]}/uint16.pth")
