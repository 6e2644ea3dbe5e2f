"""A language server with the fake engine. `--fail NAME...` makes the handlers of these LSP methods and commands raise, `--starve N`
leaves no thread of the event loop's pool free for N seconds from `initialized` on,
`--patience N` gives up an analysis process that does nothing for N seconds, `--no-analysis` gives it an analysis process that ends at once, `--tool FILE` runs jobs with that Python program in place of
the command line, `--answer-seconds N` waits that long for the answer to a question, `--debug`
logs all that the real one logs at its most talkative."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from lsprotocol import types as t
from stitchcuda.server.engine import stuck
from stitchcuda.server.lsp import COMMANDS, FEATURES, build_server, run_stdio


def fail(*_: object) -> None:
    raise RuntimeError("secret source text")


def starving(seconds: float, handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler, which takes every thread of the pool first."""

    @wraps(handler)
    async def starve(*arguments: Any) -> Any:
        for _ in range(2 * (os.cpu_count() or 1) + 32):
            asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds)
        return await handler(*arguments)

    return starve


if __name__ == "__main__":
    broken = sys.argv[sys.argv.index("--fail") + 1 :] if "--fail" in sys.argv else []
    features = [replace(f, handler=fail) if f.method in broken else f for f in FEATURES]
    commands = [(name, fail if name in broken else handler) for name, handler in COMMANDS]
    if "--starve" in sys.argv:
        seconds = float(sys.argv[sys.argv.index("--starve") + 1])
        features = [
            replace(f, handler=starving(seconds, f.handler)) if f.method == t.INITIALIZED else f for f in features
        ]
    analysis = ("-m", "tests.server.programs.fake_analysis")
    if "--no-analysis" in sys.argv:
        analysis = ("-c", "raise SystemExit(3)")
    if "--patience" in sys.argv:
        stuck._IDLE_SECONDS = float(sys.argv[sys.argv.index("--patience") + 1])
        stuck.LOOK_SECONDS = 0.5
    server = build_server("0", (sys.executable, *analysis), features=features, commands=commands)
    if "--tool" in sys.argv:
        server.child_command = (sys.executable, sys.argv[sys.argv.index("--tool") + 1])
    if "--debug" in sys.argv:
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG)
    if "--answer-seconds" in sys.argv:
        server.answer_seconds = float(sys.argv[sys.argv.index("--answer-seconds") + 1])
    sys.exit(run_stdio(server))
