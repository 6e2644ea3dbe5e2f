"""From text to the Program: `ir.py` is what the frontends (`cuda/`, `cupy/`) produce, `link.py` joins files.

`api.py` is the table of CUDA calls, with its rows in `api_runtime.py`, `api_driver.py` and `api_library.py`. `effects.py`
says what a kernel does to memory, by the walk in `device/`. `show.py` prints the IR for tests.
"""
