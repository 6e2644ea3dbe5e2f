"""Abstract walk over device code, behind `program/effects.py`: which memory a kernel reaches through its parameters, and how."""
