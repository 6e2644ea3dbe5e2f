"""Plays a scripted endpoint against the real machinery, and checks what must hold in every scenario: no file of the program is changed,
no budget is overrun, no secret leaves, nothing is left running, and the record gives the same decisions again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.invention import anchoring
from stitchcuda.agent.invention.asking import Asking
from stitchcuda.agent.invention.replaying import Remade, remake
from stitchcuda.agent.model import transcript
from stitchcuda.agent.model.accounting import Budget, Ledger, Prices
from stitchcuda.agent.model.client import Client, Patience
from stitchcuda.agent.model.endpoint import Api, Endpoint
from stitchcuda.agent.model.messages import Model
from stitchcuda.agent.model.sending import NeverSend
from stitchcuda.agent.outcome import Candidate
from stitchcuda.agent.proposing import Proposed
from stitchcuda.agent.stitching import Request, Stitched, stitch
from stitchcuda.analysis.contract.intent import parse_intent
from stitchcuda.analysis.contract.project import Project

from tests.llm.answers import Answer, say_json
from tests.llm.endpoint import Scripted, ScriptedEndpoint
from tests.llm.scripted_hub import FILES, ScriptedHub, write_program

TOKEN = "ghp_" + "Q7rT2xLw9ZkVbN4mCd8Fy1HsJe6UaPo3G5iB"  # stands in a source that is sent
PASSWORD = "correct-horse-9-battery"  # in the environment, and in a source
HIDDEN = "pi_is_about_3_1415_and_nobody_may_know"  # in a file that is never sent
KEY = "key-of-this-endpoint-1234567890"
SECRETS = (TOKEN, PASSWORD, HIDDEN)
TRANSPORTS = (("chat", True), ("chat", False), ("responses", True), ("responses", False))
IMPATIENT = Patience(attempts=3, connects=2, unreadable=2, first=0.01, longest=0.05)

PROGRAM = {
    **FILES,
    "main.cu": FILES["main.cu"].replace("int main() {", f'static const char *token = "{TOKEN}";\n\nint main() {{')
    + f"// the database opens with {PASSWORD}\n",
    "secret/weights.h": f"static const char *{HIDDEN} = 0;\n",
    "stitchcuda.toml": '[run]\ncommand = "./main"\n',
}
TWELVE, FREE = Budget(rounds=12), Prices()


@dataclass
class Told:
    """What the user sees."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    on_step: Callable[[str], None] = lambda kind: None

    def step(self, kind: str, sentence: str, data: Mapping[str, object]) -> None:
        self.steps.append((kind, sentence))
        self.on_step(kind)

    def proposed(self, proposed: Proposed) -> None:
        """The steps tell."""

    def judged(self, candidate: Candidate) -> None:
        """The steps tell."""

    @property
    def text(self) -> str:
        return "\n".join(sentence for _, sentence in self.steps)


@dataclass
class Played:
    done: Stitched
    endpoint: ScriptedEndpoint
    hub: ScriptedHub
    told: Told
    seconds: float
    recorded: Mapping[str, Any]

    @property
    def events(self) -> list[str]:
        """What happened, a word a decision; a verdict with what it showed."""
        return [d.get("shown", d["event"]) for d in self.recorded["decisions"]]

    @property
    def phases(self) -> list[str]:
        return [d["phase"] for d in self.recorded["decisions"]]

    def asked(self, number: int) -> str:
        """All that request `number` said, from 0."""
        return self.endpoint.requests[number].text


@dataclass
class Stage:
    """Where scenarios play: a folder of their own, and an environment with a secret."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        self.monkeypatch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))
        self.monkeypatch.setenv("DB_PASSWORD", PASSWORD)
        self.root = write_program(self.folder / "p", PROGRAM)

    def play(
        self,
        script: Iterable[Scripted],
        *,
        hub: ScriptedHub | None = None,
        transport: tuple[str, bool] = ("chat", True),
        budget: Budget = TWELVE,
        prices: Prices = FREE,
        intent: str = "",
        rules: bool = True,
        seconds: float | None = None,
        silence: float = 5.0,
        total: float = 20.0,
        key: str = "",
        sent_key: str = KEY,
        cancelled: Callable[[], bool] = lambda: False,
        on_step: Callable[[str], None] = lambda kind: None,
        closed: bool = False,
        all_used: bool = True,
    ) -> Played:
        hub, told, before = hub or ScriptedHub(), Told(on_step=on_step), self._tree()
        running = Running.now()
        with ScriptedEndpoint(script, key=key) as endpoint:
            if closed:
                endpoint.close()
            ledgers: list[Ledger] = []

            def make(ledger: Ledger, *, cancelled: Callable[[], bool], tell: Callable[[str], None]) -> Model:
                ledgers.append(ledger)
                api, stream = transport
                to = Endpoint(
                    endpoint.url, "coder", api=Api(api), stream=stream, silence=silence, total=total, connect=2
                )
                return Client(to, sent_key, ledger, cancelled=cancelled, tell=tell, patience=IMPATIENT)

            asking = Asking(
                make, endpoint.url, "coder", budget, prices, (NeverSend(("secret/",), self.root),), (sent_key,)
            )
            words = parse_intent(intent)
            request = Request(self.root, words, Project(), seconds, rules=rules, asking=asking, intent=intent)
            started = time.monotonic()
            done = stitch(request, told, hub.machinery, cancelled=cancelled)
            took = time.monotonic() - started
            if all_used:
                assert (endpoint.left, endpoint.unscripted) == (0, 0)
        assert self._tree() == before
        running.assert_nothing_more()
        kept = done.folder / journal.INVENTION
        recorded = json.loads(kept.read_text()) if kept.exists() else {}
        played = Played(done, endpoint, hub, told, took, recorded)
        self._keeps_secrets(played, sent_key)
        for ledger in ledgers:
            _within(ledger)
        if ledgers:
            self._comes_out_again(played)
        return played

    def _tree(self) -> dict[str, str]:
        files = sorted(
            p for p in self.folder.rglob("*") if p.is_file() and "cache" not in p.relative_to(self.folder).parts
        )
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    def _keeps_secrets(self, played: Played, key: str) -> None:
        sent = played.endpoint.sent
        assert not [s for s in SECRETS if s in sent]
        for request in played.endpoint.all_requests:
            assert key not in request.body.decode(errors="replace")
        folder = played.done.folder
        kept = [
            folder / transcript.NAME,
            folder / journal.INVENTION,
            folder / anchoring.NAME,
            folder / "events.jsonl",
            folder / "result.json",
        ]
        for file in kept:
            text = file.read_text() if file.exists() else ""
            assert not [s for s in (*SECRETS, key) if s in text], file.name
        assert key not in played.told.text

    def _comes_out_again(self, played: Played) -> None:
        """From the record alone, the requests word for word."""
        record = journal.read(played.done.folder)
        assert not any(r.differing for r in journal.replay(record))
        if (asked := anchoring.read(record)) is not None:
            assert anchoring.remake(record, asked) == Remade(1, "")
        if played.recorded:
            remade = remake(record, played.hub.analyser, played.hub.transforms)
            assert remade.difference == "" and remade.decisions == len(played.recorded["decisions"])
            assert remade.reworded == ()


@dataclass(frozen=True)
class Running:
    """The threads and the child processes of the tests. Some may be there before a scenario: tests of editors keep one open."""

    threads: frozenset[threading.Thread]
    children: frozenset[str]

    @classmethod
    def now(cls) -> Running:
        children: set[str] = set()
        for task in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread that ended meanwhile
                children.update(task.read_text().split())
        return cls(frozenset(t for t in threading.enumerate() if t.is_alive()), frozenset(children))

    def assert_nothing_more(self) -> None:
        deadline = time.monotonic() + 2
        while (left := Running.now().threads - self.threads) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not left
        assert not Running.now().children - self.children


def _within(ledger: Ledger) -> None:
    most, spent = ledger.budget.filled(), ledger.spent
    assert most.rounds is not None and most.tokens is not None and most.money is not None
    assert spent.rounds <= most.rounds and spent.tokens <= most.tokens and spent.money <= most.money
    assert most.gpu_seconds is not None and spent.gpu_seconds <= most.gpu_seconds + 0.5  # until the judge looks


# ------------------------------------------------------------------------------------------------------------- replies


def plan(summary: str = "fuse scale and shift", **more: Any) -> Answer:
    value = {
        "done": False,
        "summary": summary,
        "steps": ["one kernel instead of two"],
        "expected_bottleneck": "launches",
        "risks": [],
        "constraints": [],
        "targets": ["kernels.cuh"],
    }
    return say_json({**value, **more})


def nothing_left() -> Answer:
    return plan("the memory limits it", done=True, steps=[], targets=[])


def replace(anchor: str, text: str, path: str = "kernels.cuh") -> dict[str, str]:
    return {"kind": "replace", "path": path, "anchor": anchor, "text": text}


def rewrite(function: str, text: str, path: str = "kernels.cuh") -> dict[str, str]:
    return {"kind": "function", "path": path, "function": function, "text": text}


def create(path: str, text: str) -> dict[str, str]:
    return {"kind": "new_file", "path": path, "text": text}


def code(*edits: dict[str, str]) -> Answer:
    return say_json({"why": "the same values in one pass", "edits": list(edits)})


def fix(*edits: dict[str, str]) -> Answer:
    return say_json({"cause": "what the issue says", "edits": list(edits)})


def mark(text: str, at: str = "#pragma once\n") -> dict[str, str]:
    """Writes a line behind the first one of the kernels."""
    return replace(at, f"{at}// {text}\n")


def remark(before: str, after: str) -> dict[str, str]:
    """Another line in the place of one that `mark` wrote."""
    return replace(f"// {before}\n", f"// {after}\n")


FASTER = "speed 1.5"
