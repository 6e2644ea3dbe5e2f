"""Many files: what is known about each, caches, and the findings of the whole."""

from stitchcuda.analysis.index.cancel import Cancel, CancelToken
from stitchcuda.analysis.index.index import Analysis, Index

__all__ = ["Analysis", "Cancel", "CancelToken", "Index"]
