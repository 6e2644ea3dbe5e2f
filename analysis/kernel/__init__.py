"""One kernel, run in the mind: all threads of a block step by step, its memory accesses and its barriers."""
