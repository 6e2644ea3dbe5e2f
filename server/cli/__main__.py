"""`python -m stitchcuda.server.cli`, for places where the installed command is not on PATH."""

import sys

from stitchcuda.server.cli.dispatch import main

sys.exit(main())
