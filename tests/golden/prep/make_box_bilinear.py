#!/usr/bin/env python3
"""Pillow's results for what prep.safetensors lacks: the box and bilinear filters, stretching to other proportions with all
four, pictures made smaller and larger, a tall picture (of which Pillow 13 resizes the rows first), and EXIF's eight positions.

    python3 make_box_bilinear.py        writes box_bilinear.safetensors beside itself

box_bilinear.safetensors was made with Pillow 13.0.0, numpy, safetensors. Sources are the `.rgb` tensors of prep.safetensors
and a part of one, `tall_18x91.png.rgb`.
  <file>.<filter>.<W>x<H>   Image.resize((W, H), filter) of that picture, [H, W, 3]
  turn.<k>                  ImageOps.exif_transpose of turn.1, a 3 x 5 grey picture, with EXIF orientation k
"""
import io
import pathlib
import PIL
from PIL import Image, ImageOps
import numpy
from safetensors.numpy import load_file, save_file

here = pathlib.Path(__file__).parent
sources = load_file(here / 'prep.safetensors')
filters = {'box': Image.BOX, 'bilinear': Image.BILINEAR, 'bicubic': Image.BICUBIC, 'lanczos': Image.LANCZOS}
out = {}
sources['tall_18x91.png.rgb'] = out['tall_18x91.png.rgb'] = sources['disc_70x91.png.rgb'][:, 20:38]
for name in ['disc_70x91.png', 'wide_64x20.png', 'odd_32x33.png', 'tall_18x91.png']:
    picture = Image.fromarray(sources[name + '.rgb'])
    for filter, code in filters.items():
        for w, h in [(32, 32), (17, 24), (1, 1), (96, 41)]:
            out[f'{name}.{filter}.{w}x{h}'] = numpy.asarray(picture.resize((w, h), code))

grey = (numpy.arange(15, dtype=numpy.uint8) * 17).reshape(3, 5)
for k in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = k
    file = io.BytesIO()
    Image.fromarray(grey).save(file, 'PNG', exif=exif)
    out[f'turn.{k}'] = numpy.asarray(ImageOps.exif_transpose(Image.open(file)))

out = {k: numpy.ascontiguousarray(v) for k, v in out.items()}
save_file(out, here / 'box_bilinear.safetensors', {'pillow': PIL.__version__})
