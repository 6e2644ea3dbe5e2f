"""The frontend for Python files that drive CuPy: to the Program IR.

`module.py` lowers a file, `inference.py` finds what its names hold (arrays, streams, events, kernels), `statements.py` and
`expressions.py` lower syntax, `calls.py` the CuPy calls by the table in `table.py`, `sources.py` the CUDA text in strings.
"""

from stitchcuda.analysis.program.cupy.module import lower_module

__all__ = ["lower_module"]
