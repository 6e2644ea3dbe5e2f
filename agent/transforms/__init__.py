"""Whole-program transforms, one a file; the table of them is `TRANSFORMS`."""
