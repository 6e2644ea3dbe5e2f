"""A3: findings come first: what hover and lenses show is worked out in pauses, and laid aside when there is none."""

from __future__ import annotations

from functools import partial

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.server.engine.placing import Interrupted, place_outline

from benchmarks.long_file import generated


def test_a3_the_outline_is_laid_aside_when_something_waits() -> None:
    text = generated(600).encode()
    index = Index()
    index.put("/a.cu", text)
    analysis = index.analyse(None)
    asked = 0

    def after(count: int) -> bool:
        nonlocal asked
        asked += 1
        return asked > count

    whole = place_outline(analysis, ["/a.cu"], {"/a.cu": text}, lambda path: None)["/a.cu"]
    assert whole.launches and whole.functions and whole.operations and whole.named
    for count in (
        0,
        1,
        len(whole.launches) + 1,
        len(whole.launches) + len(whole.functions) + len(whole.operations) + 1,
    ):
        asked = 0
        with pytest.raises(Interrupted):
            place_outline(analysis, ["/a.cu"], {"/a.cu": text}, lambda path: None, partial(after, count))
        assert asked == count + 1, "soon after"
