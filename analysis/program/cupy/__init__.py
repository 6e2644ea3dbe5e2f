"""The frontend for Python files that drive CuPy: to the Program IR.

`module.py` lowers a file, `inference.py` finds what its names hold (`kinds.py`: arrays, streams, events, kernels), `statements.py`,
`expressions.py` and `calls.py` lower syntax, `library.py` and `kernels.py` what CuPy does (by `table.py`), `lifetimes.py` the end of an
array, `sources.py` the CUDA text in strings.
"""

from stitchcuda.analysis.program.cupy.module import lower_module

__all__ = ["lower_module"]
