"""The C++ frontend: CUDA, C and C++ files to the Program IR.

`module.py` lowers a file, `declarations.py` finds what it declares, `functions.py` lowers one function (cached by text).
Syntax: `statements.py`, `switches.py`, `branches.py` (`#if`), `declare.py`, `expressions.py`, `calls.py`, `names.py`,
`lambdas.py`, `declarators.py` (types), `literals.py`; `dispatch.py` is the table of node kinds. Macros: `macro_bodies.py`
(definitions), `macro_text.py` (substitution), `macros.py` (expansion). `context.py` is what all of them are passed.
"""

from stitchcuda.analysis.program.cuda.functions import LoweringCache
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef, collect_macros
from stitchcuda.analysis.program.cuda.module import ModuleLowering, lower_module, under

__all__ = ["LoweringCache", "MacroDef", "ModuleLowering", "collect_macros", "lower_module", "under"]
