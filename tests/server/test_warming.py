"""What the analysis process does before the first file is opened: it finds what there is, tells nobody, and gives way."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.index.shared import SHARED
from stitchcuda.server.engine import placing, warming
from stitchcuda.server.engine.messages import Partly, Result, pack


def test_it_goes_the_way_of_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    packed: list[Partly | Result] = []

    def kept(message: Partly | Result) -> bytes:
        packed.append(message)
        return pack(message)

    monkeypatch.setattr(warming, "pack", kept)
    outlined: list[int] = []
    outline = placing.place_outline

    def counted(*arguments: object) -> object:
        facts = outline(*arguments)  # type: ignore[arg-type]
        outlined.append(sum(len(f.launches) for f in facts.values()))
        return facts

    monkeypatch.setattr(placing, "place_outline", counted)
    index = Index(strict=True)
    assert warming.warm_up(index, lambda: False)
    first, last = packed[0], packed[-1]
    assert isinstance(first, Partly) and isinstance(last, Result)
    some, every = ({f for facts in m.facts.values() for f in facts.findings} for m in (first, last))
    assert some and some <= every
    assert {"error", "hint"} <= {f.severity for f in every}
    assert outlined and outlined[0] == 2
    assert capsys.readouterr() == ("", "")
    assert not SHARED._kept.keys() & {warming._PATH} and not index._files, "nothing of it stays"


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_it_gives_way_and_is_done_later(looks: int) -> None:
    left = looks

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    assert not warming.warm_up(Index(strict=True), stop)
    assert warming.warm_up(Index(strict=True), lambda: False)


def test_what_is_wrong_with_it_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Index):
        def analyse(self, *_: object) -> object:  # type: ignore[override]
            raise RuntimeError("text of a program")

    assert warming.warm_up(Broken(), lambda: False)
    assert "RuntimeError" in (told := capsys.readouterr().err) and "text of" not in told
