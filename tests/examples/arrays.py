"""Arrays in Fortran order and big-endian, from NumPy: python tests/examples/arrays.py"""

import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
cube = (np.arange(24, dtype=np.int32) * 1_000_003 - 9).reshape(2, 3, 4)
matrix = np.array([[0.5, -1.0, 1e300], [2.0, 3.25, -0.0]])
np.save(HERE / "array_fortran.npy", np.asfortranarray(cube))
np.save(HERE / "array_big.npy", cube.astype(">i4"))
np.save(HERE / "array_big_fortran.npy", np.asfortranarray(matrix.astype(">f8")))
