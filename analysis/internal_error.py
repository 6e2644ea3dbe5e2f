"""What is told of an error that stitchcuda did not expect."""

from __future__ import annotations


def where(error: BaseException) -> str:
    """Type and innermost place of an error, without its message, which may quote the user's text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    name = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{type(error).__name__} at {name}:{trace.tb_lineno}"
