"""Symbolic execution: from a Program and one of its entry functions to a Timeline (`timeline.py`).

The executor is one class in layers, a file each; a layer uses those below it. From the bottom: `recorder.py` writes down
ops in their order, `places.py` what variables hold, `expressions.py`, `launches.py`, `transfers.py` (allocations, copies),
`operations.py` (other API calls), `containers.py` (the C++ library's), `host_calls.py`, `construction.py` (locals and their life),
`calls.py` (with `packs.py`), `statements.py`,
`loops.py`, `execute.py` (an entry). Beside them: `machine.py` knows what each operation orders, `state.py` is one group of
paths, `values.py`, `symbolic.py` and `arithmetic.py` what is computed with, `names.py` and `host_library.py` what names
mean, `alias.py` whether two accesses touch the same bytes, `effort.py` how much work an entry is worth.
"""
