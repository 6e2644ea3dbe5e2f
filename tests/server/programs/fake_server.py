"""A language server with the fake engine. `--fail METHOD` makes the handler of one LSP method raise,
`--no-analysis` gives it an analysis process that ends at once, `--tool FILE` runs jobs with that Python program in place of
the command line, `--answer-seconds N` waits that long for the answer to a question."""

import sys
from dataclasses import replace

from stitchcuda.server.lsp import FEATURES, build_server, run_stdio


def fail(*_: object) -> None:
    raise RuntimeError("secret source text")


if __name__ == "__main__":
    broken = sys.argv[sys.argv.index("--fail") + 1 :] if "--fail" in sys.argv else []
    features = [replace(f, handler=fail) if f.method in broken else f for f in FEATURES]
    analysis = ("-m", "tests.server.programs.fake_analysis")
    if "--no-analysis" in sys.argv:
        analysis = ("-c", "raise SystemExit(3)")
    server = build_server("0", (sys.executable, *analysis), features=features)
    if "--tool" in sys.argv:
        server.child_command = (sys.executable, sys.argv[sys.argv.index("--tool") + 1])
    if "--answer-seconds" in sys.argv:
        server.answer_seconds = float(sys.argv[sys.argv.index("--answer-seconds") + 1])
    sys.exit(run_stdio(server))
