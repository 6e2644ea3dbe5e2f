"""Traced runs: the CUPTI tracer, what it writes, and the Timeline of a run."""
