"""What the host's own C++ and Python does: names, places, expressions, containers, calls, statements and loops.

From the bottom: `names.py` (with `statics.py` and `packs.py`), `places.py` what variables hold, `expressions.py`, what the host's
library does (`host_library.py`, `host_ranges.py`, `host_calls.py`, `containers.py`), `construction.py` (locals and their life),
`calls.py`, `statements.py`, `loops.py`.
"""
