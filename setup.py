"""Finds the packages; everything else about the build is in pyproject.toml.

The top-level folders are parts of the namespace package `stitchcuda` (docs/adr/0001-package-layout.md). setuptools can find packages
or rename them but not both in pyproject.toml, so the finding is done here: a new sub-package needs no entry anywhere.
With STITCHCUDA_COMPILED=1 a wheel holds the analysis compiled as well (docs/adr/0011-compiled-analysis.md).
"""

import os
import sys
from pathlib import Path

from setuptools import find_packages, setup

CODE = ("analysis", "gpu_validate", "agent", "server")
DATA = ("docs", "examples")  # folders without modules: shipped as package data

found = find_packages(include=[pattern for part in CODE for pattern in (part, f"{part}.*")])
options = {}
if os.environ.get("STITCHCUDA_COMPILED") == "1":
    sys.path.insert(0, str(Path(__file__).parent / "scripts"))
    import compile_analysis

    options = compile_analysis.options()
setup(packages=[f"stitchcuda.{name}" for name in (*found, *DATA)], **options)
