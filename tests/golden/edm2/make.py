# The files of this folder, as NVlabs/edm2's calculate_metrics.py writes its references (small ones). numpy 1.26: python make.py
# numpy 2.x, for the names it has since: python make.py numpy2.pkl
import pickle, struct, sys
import numpy as np
from safetensors.numpy import save_file
r = np.random.default_rng(1)
x = {'fid': r.normal(size=(50, 6)), 'fd_dinov2': r.normal(size=(50, 4)) + 1}
def stats(names, order='C'):
    s = {k: dict(mu=x[k].mean(0), sigma=np.cov(x[k], rowvar=False)) for k in names}
    for k in names: s[k]['sigma'][0, 1] += 1e-9       # not symmetric to the last digit, as sums on a GPU are: shows the order
    for k in names: s[k]['sigma'] = np.array(s[k]['sigma'], order=order)
    return dict(num_images=50, **s)
def write(name, value, protocol=4):
    with open(name, 'wb') as f: pickle.dump(value, f, protocol=protocol)
if len(sys.argv) > 1:
    write(sys.argv[1], stats(['fid', 'fd_dinov2']))
    sys.exit()
for p in 2, 3, 4, 5: write(f'protocol{p}.pkl', stats(['fid', 'fd_dinov2']), p)
write('fortran4.pkl', stats(['fid'], 'F'))
write('fortran5.pkl', stats(['fid'], 'F'), 5)
write('dinov2.pkl', stats(['fd_dinov2']))

# Not references
s = stats(['fid'])
write('protocol0.pkl', s, 0)
write('list.pkl', [s])
write('no_array.pkl', dict(fid=dict(mu=[1.0, 2.0], sigma=s['fid']['sigma'])))
write('one_image.pkl', dict(s, num_images=1))
write('no_sigma.pkl', dict(fid=dict(mu=s['fid']['mu'])))
write('float32.pkl', dict(fid=dict(mu=s['fid']['mu'].astype(np.float32))))
write('big_endian.pkl', dict(fid=dict(mu=s['fid']['mu'].astype('>f8'))))
write('object.pkl', dict(fid=dict(mu=np.array([{'a': 1}], dtype=object))))
write('not_square.pkl', dict(fid=dict(mu=s['fid']['mu'], sigma=np.ones((2, 3)))))
write('nan.pkl', dict(fid=dict(mu=s['fid']['mu'] * np.nan, sigma=s['fid']['sigma'])))
write('wrong_shape.pkl', dict(fid=dict(mu=s['fid']['mu'], sigma=np.ones((3, 3)))))
class Evil:
    def __reduce__(self): import os; return os.system, ('echo run by the pickle',)
class Evil2:
    def __reduce__(self): return eval, ('print("run by the pickle")',)
write('system.pkl', dict(s, fid=Evil()))
write('eval.pkl', dict(s, fid=Evil2()), 2)
b = bytearray(open('protocol4.pkl', 'rb').read())
open('cut.pkl', 'wb').write(b[:-200])
open('more.pkl', 'wb').write(b + b'x')
def patched(name, old, new, start=0):
    assert old in b[start:], name
    c = bytes(b[:start]) + bytes(b[start:]).replace(old, new, 1)
    open(name, 'wb').write(c)
patched('short.pkl', b'K\x06\x85', b'K\x07\x85')                    # mu [7] of 48 bytes
patched('huge.pkl', b'K\x06\x85', b'J\xff\xff\xff\x7f\x85')         # the frame's length means nothing here
patched('negative.pkl', b'K\x06\x85', b'J\xff\xff\xff\xff\x85')
# One array under three names
big = np.zeros(512)
write('repeated.pkl', dict(fid={f'a{i}': big for i in range(3)}))
s = stats(['fid', 'fd_dinov2'])
save_file({f'{k}.{n}': np.ascontiguousarray(s[k][n]) for k in ('fid', 'fd_dinov2') for n in ('mu', 'sigma')}, 'arrays.safetensors')
