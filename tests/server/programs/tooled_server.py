"""The real language server, whose jobs run `python -m MODULE` in place of the command line: `tooled_server MODULE`."""

import sys

from stitchcuda.server.lsp import build_server, run_stdio

if __name__ == "__main__":
    server = build_server("0")
    server.child_command = (sys.executable, "-m", sys.argv[1])
    sys.exit(run_stdio(server))
