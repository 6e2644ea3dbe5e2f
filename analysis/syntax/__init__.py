"""Source text: immutable documents with their lines (`text.py`), parsed by tree-sitter (`parse.py`, `python.py`)."""
