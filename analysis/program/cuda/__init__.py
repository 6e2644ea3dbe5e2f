"""The C++ frontend: CUDA, C and C++ files to the Program IR.

`module.py` walks a file and lowers its functions one by one (cached by text), `declarations.py` finds what the file
declares, `statements.py`, `expressions.py`, `calls.py` and `declarators.py` lower syntax, `macros.py` expands macros.
"""

from stitchcuda.analysis.program.cuda.functions import LoweringCache
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef, collect_macros
from stitchcuda.analysis.program.cuda.module import lower_module

__all__ = ["LoweringCache", "MacroDef", "collect_macros", "lower_module"]
