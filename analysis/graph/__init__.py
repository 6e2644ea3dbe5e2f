"""The execution graph (docs/graph.md): `build.py` makes it from Timelines, `flow.py` finds where values flow, `to_*.py` print it."""
