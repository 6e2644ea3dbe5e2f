"""The contract: what a user wants kept and reached. `types.py` the values, `jsonread.py` the reading of JSON (docs/json.md),
`intent/` the reading of words, `project.py` the reading of stitchcuda.toml."""
