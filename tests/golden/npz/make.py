# The archives of this folder: numpy 2.x, python make.py
import numpy as np, zipfile, io
r = np.random.default_rng(1)
a = r.normal(size=(50, 6)); b = r.normal(size=(50, 3))
m = dict(mu=a.mean(0), sigma=np.asfortranarray(np.cov(a, rowvar=False)))
np.savez('stats.npz', **m)
np.savez_compressed('stats_s.npz', mu_s=b.mean(0), sigma_s=np.cov(b, rowvar=False), arr_0=np.zeros((2, 4, 4, 3), np.uint8), **m)
np.savez('images.npz', np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3), np.array([1, 2, 3]))
np.savez('float32.npz', mu=m['mu'].astype(np.float32), sigma=m['sigma'])
np.savez('alone.npz', mu=m['mu'])
np.savez('other.npz', x=m['mu'])
np.savez('object.npz', mu=np.array([{'a': 1}], dtype=object))
np.savez('big_endian.npz', mu=m['mu'].astype('>f8'))
def put(name, text, data=b''):
    h = text.encode()
    with zipfile.ZipFile(name, 'w') as z:
        z.writestr('mu.npy', b'\x93NUMPY\x01\x00' + len(h).to_bytes(2, 'little') + h + data)
put('short.npz', "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", b'12345678')
put('shape.npz', "{'descr': '<f8', 'fortran_order': False, 'shape': (3,-1), }\n")
put('huge.npz', "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n")
put('no_shape.npz', "{'descr': '<f8', 'fortran_order': False}\n")
with zipfile.ZipFile('no_array.npz', 'w') as z: z.writestr('mu.npy', b'hello')
with zipfile.ZipFile('no_npy.npz', 'w') as z: z.writestr('a.txt', b'hello')
np.savez('trailing.npz', **m); s = open('trailing.npz', 'rb').read(); open('cut.npz', 'wb').write(s[:-40])
import os; os.remove('trailing.npz')
from safetensors.numpy import save_file
save_file({'a': np.ascontiguousarray(a)}, 'a.safetensors')
