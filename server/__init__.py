"""The outermost layer: the language server and the `stitchcuda` command.

`lsp.py` is the server with the table of its features (`features/`, one a file) on the protocol (`protocol.py`,
`transport.py`, positions in `convert.py`). `documents.py` keeps the open texts. Analysis runs in a child process
(`engine/`).
`cli/` is the command, `report/` its output formats, `workers.py` its processes.
"""
