"""What CUDA's calls and launches do to a run: ops, the order between them, handles and memory.

From the bottom: `lifetimes.py` and `clocks.py`, `launches.py`, `copy_blocks.py`, `launch_configs.py`, `early_launches.py`, `transfers.py` (allocations,
copies), `captures.py`, `host_functions.py`, `graphs.py`, `stream_memory.py`, `handouts.py`, `queries.py`, `operations.py` (the
table of calls), `thrust.py`.
"""
