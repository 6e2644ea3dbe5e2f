"""Skips tests whose marker names something that this machine lacks, with the reason."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import settings
from stitchcuda.gpu_validate.toolchain import find_nvcc

# The same examples in every run, so that a red run means a change; STITCHCUDA_FUZZ=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("searching", derandomize=False)
settings.load_profile("searching" if os.environ.get("STITCHCUDA_FUZZ") else "repeatable")


# A shell's background jobs and nohup's ignore it; what the tests start would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def missing_nvcc() -> str:
    """Why tests marked `nvcc` cannot run here; "" when they can."""
    nvcc, problem = find_nvcc()
    if nvcc is None:
        return f"no CUDA compiler ({problem or 'nvcc not found'}); pip install 'stitchcuda[toolchain]' brings one"
    if sys.platform != "win32" and shutil.which("g++") is None:
        return "no g++, which nvcc needs"
    return ""


@cache
def missing_gpu() -> str:
    """Why tests marked `gpu` cannot run here; "" when they can."""
    command = [sys.executable, "-P", "-m", "stitchcuda.gpu_validate.nvml"]
    try:
        answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return "the NVIDIA driver does not answer"
    return "" if '"gpus": [{' in answer.stdout else f"no GPU ({answer.stdout.strip() or answer.stderr.strip()})"


NEEDS = {"nvcc": missing_nvcc, "gpu": missing_gpu}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker, missing in NEEDS.items():
            if item.get_closest_marker(marker) and (reason := missing()):
                item.add_marker(pytest.mark.skip(reason=reason))
