"""Symbolic execution: from a Program and one of its entry functions to a Timeline (`timeline.py`).

The executor is one class in layers, a file each; a layer uses those below it. `recorder.py` writes down ops in their order,
`host/` follows the host's code, `cuda/` what CUDA's calls do, and `execute.py` runs an entry. They lean on each other on purpose: an
expression can be a call, a call can launch. Beside them: `machine.py` knows what each operation orders, `state.py` is one group
of paths, `values.py`, `symbolic.py` and `arithmetic.py` what is computed with, `alias.py` whether two accesses touch the same
bytes (`families.py`: of objects made in loops), `effort.py` how much work an entry is worth.
"""
