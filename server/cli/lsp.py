"""`stitchcuda lsp`: the language server, on stdin and stdout or on a local TCP port."""

from __future__ import annotations

import argparse
import gc
import logging
import sys

from stitchcuda.server.cli.dispatch import version

LEVELS = ("error", "warning", "info", "debug")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--stdio", action="store_true", help="speak on stdin and stdout (the default)")
    way.add_argument(
        "--tcp", type=port, metavar="PORT", help="wait for one client on 127.0.0.1:PORT; 0 takes a free port"
    )
    way.add_argument("--version", action="version", version=f"stitchcuda {version()}")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="warning", help="what is written to stderr (%(default)s)"
    )


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"a port is between 0 and 65535, not {number}")
    return number


def run(arguments: argparse.Namespace) -> int:
    # The analysis process warms up while this one imports the protocol's types (0.4 s).
    from stitchcuda.server.engine.analyses import start_process

    process = start_process()
    gc.disable()  # nothing to be found among hundreds of types that stay; the server collects in pauses
    from stitchcuda.server.lsp import build_server, run_stdio, run_tcp
    from stitchcuda.server.transport import LogHandler

    level = getattr(logging, arguments.log_level.upper())
    logging.basicConfig(
        handlers=[LogHandler(sys.stderr.fileno())], level=level, format="%(asctime)s %(levelname)s %(message)s"
    )
    server = build_server(version(), analysis_process=process)
    if arguments.tcp is not None:
        return run_tcp(server, arguments.tcp)
    return run_stdio(server)
