"""The outermost layer: the language server and the `stitchcuda` command.

`lsp.py` is the server with the table of its features (`features/`, one a file) on the protocol (`protocol.py`,
`transport.py`, positions in `convert.py`). `documents.py` keeps the open texts. Analysis runs in a child process:
`analyses.py` is the server's side, `analysis_process.py` the child's, `messages.py` and `facts.py` what they exchange.
`cli/` is the command, `report/` its output formats, `workers.py` its processes.
"""
