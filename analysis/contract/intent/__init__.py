"""The deterministic reader of intents, English and Chinese: `parse_intent` (`parse.py`), one kind of words a module."""

from stitchcuda.analysis.contract.intent.parse import parse_intent

__all__ = ["parse_intent"]
