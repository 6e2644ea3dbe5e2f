"""What features see of a file: which facts touch a place after edits, and findings as JSON."""

from __future__ import annotations

import random

from lsprotocol import types as t
from pygls.protocol import default_converter
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.syntax.text import Change, Position
from stitchcuda.server import convert
from stitchcuda.server.documents import Documents
from stitchcuda.server.engine.facts import FileFacts, LaunchFact, Place
from stitchcuda.server.engine.placing import place_findings
from stitchcuda.server.settings import Settings

from benchmarks.long_file import generated

URI = "file:///project/a.cu"


def test_facts_that_touch_a_place_are_those_that_carried_spans_touch() -> None:
    chance = random.Random(5)
    for _ in range(1500):
        store = Documents("utf-8")
        document = store.open(URI, "cuda", 1, "".join(chance.choices("ab\n", k=chance.randrange(40))))
        analysed, size = document.revision, len(document.encoded)
        spans = [sorted(chance.choices(range(size + 1), k=2)) for _ in range(12)]
        facts = [LaunchFact(Place(document.path, a, b), "k", "", "", (), (), (), ()) for a, b in spans]
        for version in range(2, 2 + chance.randrange(4)):
            ends = sorted(chance.choices(range(len(document.encoded) + 1), k=2))
            start, end = (document.position(each, "utf-8") for each in ends)
            new = "".join(chance.choices("xy\n", k=chance.randrange(5)))
            change = Change(Position(start.line, start.column), Position(end.line, end.column), new)
            changed = store.change(URI, version, [change])
            assert changed is not None
            document = changed
        edits = store.since(URI, analysed)
        assert edits is not None
        view = convert.View(document, FileFacts(document.path), edits, "utf-8", store.snapshot)
        first, last = sorted(chance.choices(range(len(document.encoded) + 1), k=2))
        carried = [(fact, view.span(fact.place)) for fact in facts]
        wanted = [(f, span) for f, span in carried if span is not None and span[0] <= last and first <= span[1]]
        assert list(view.touching(facts, first, last)) == wanted


def test_findings_as_json_are_the_protocols_diagnostics() -> None:
    store = Documents("utf-16")
    document = store.open(URI, "cuda", 1, "// 😀\n" + generated(1600))
    index = Index()
    index.put(document.path, document.encoded)
    facts = place_findings(index.analyse(), [document.path])[document.path]
    view = convert.View(document, facts, (), "utf-16", store.snapshot)
    plain = t.ClientCapabilities()
    related = t.PublishDiagnosticsClientCapabilities(related_information=True)
    rich = t.ClientCapabilities(text_document=t.TextDocumentClientCapabilities(publish_diagnostics=related))
    settings = Settings()
    for capabilities in (plain, rich):
        made = list(convert.diagnostics(view, settings, capabilities, lambda code: f"file:///{code}.md"))
        typed = [
            convert.to_diagnostic(view, finding, here, settings, capabilities, f"file:///{finding.code}.md")
            for finding, here in convert.shown_findings(view, settings)
        ]
        as_json = default_converter().unstructure  # type: ignore[no-untyped-call]
        assert made == [as_json(each) for each in typed] and len(made) > 20
        assert any("relatedInformation" in each for each in made) == (capabilities is rich)
