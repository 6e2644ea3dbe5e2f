"""Nothing reaches an endpoint but the request: no key of another one, no headers about this machine, no secret, no file that nobody
agreed to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.agent.model.accounting import Budget, Ledger, Prices
from stitchcuda.agent.model.approvals import Approvals, Command, Question, needed
from stitchcuda.agent.model.endpoint import Options
from stitchcuda.agent.model.guarded import Guarded
from stitchcuda.agent.model.messages import Ask, BudgetSpent, Message, NotApproved, Speaker, ToolCall
from stitchcuda.agent.model.opening import Configured, configured
from stitchcuda.agent.model.secrets import Redactor
from stitchcuda.agent.model.transcript import NAME, Transcript
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import call, fail, say
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.model.asking import FORMS, KEY, SCHEMA, TOOL, ask, talk

VARIABLES = (
    "STITCHCUDA_LLM_URL", "STITCHCUDA_LLM_MODEL", "STITCHCUDA_LLM_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.cu").write_text("__global__ void f() {}\n")
    return folder


def opened(said: Configured, root: Path, files: tuple[str, ...], ledger: Ledger, run: Path | None = None) -> Guarded:
    """As a run has it."""
    agreed = said.agreed(root, files, (), Approvals())
    client = agreed.model(ledger, cancelled=lambda: False, tell=lambda sentence: None)
    transcript = Transcript(run) if run is not None else None
    return Guarded(client, Redactor(known=agreed.secrets), files=agreed.files, transcript=transcript, ledger=ledger)


def agree(said: Configured, root: Path, files: tuple[str, ...] = ("a.cu",)) -> tuple[Question, ...]:
    asked = said.questions(root, files, (), Approvals())
    for question in asked:
        Approvals().record(question)
    return asked


@pytest.mark.parametrize(("api", "stream"), FORMS)
def test_headers_say_nothing_of_this_machine(api: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_API_KEY", "OPENAI_WEBHOOK_SECRET"):
        monkeypatch.setenv(name, "canary-of-another-endpoint")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer canary-header\nX-Team: canary-team")
    monkeypatch.setenv(
        "HTTP_PROXY", "http://127.0.0.1:9"
    )  # nothing listens there: a local endpoint is not asked through it
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with ScriptedEndpoint([say("x")], key=KEY) as there:
        client = talk(there, api, stream).client
        client.models()
        client.ask(ask("x", SCHEMA, TOOL))
        assert "canary" not in there.sent
        for request in there.all_requests:
            known = {
                "host",
                "accept",
                "accept-encoding",
                "authorization",
                "connection",
                "content-length",
                "content-type",
            }
            assert set(request.headers) <= known | {"user-agent", "x-stainless-raw-response"}
            assert request.headers["user-agent"] == "stitchcuda" and request.key == KEY


def test_a_local_server_gets_a_dummy_key() -> None:
    with ScriptedEndpoint([say("x")]) as there:
        talk(there, key="").client.ask(ask())
        assert there.requests[0].key == "no-key"


@pytest.mark.parametrize(("api", "stream"), FORMS)
def test_secrets_are_not_sent(
    api: str, stream: bool, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a source, in what a tool printed, in what the model itself said before, in an argument of a call."""
    monkeypatch.setenv("DEPLOY_TOKEN", "canary-value-of-a-variable")
    hidden = {
        "system": "canary-value-of-a-variable",
        "source": "ghp_canarycanarycanarycanarycanary0123",
        "tool": "https://bob:canary-password@example.org/x",
        "said": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----",
        "key": KEY,
    }
    messages = (
        Message(Speaker.SYSTEM, f"x {hidden['system']} y"),
        Message(Speaker.USER, f'const char *t = "{hidden["source"]}";\n{hidden["key"]}'),
        Message(Speaker.ASSISTANT, f"{hidden['said']}", (ToolCall("1", "symbol", f'"{hidden["source"]}"'),)),
        Message(Speaker.TOOL, hidden["tool"], call="1"),
    )
    run = tmp_path / "run"
    run.mkdir()
    with ScriptedEndpoint([say(f"your key is {hidden['source']} and {KEY}")]) as there:
        said = configured(workspace, Options(there.url, "coder", api, key=KEY))
        assert said is not None
        agree(said, workspace)
        ledger = said.ledger()
        model = opened(said, workspace, ("a.cu",), ledger, run)
        reply = model.ask(Ask("coder", "coder-1", messages, None, (TOOL,), ("a.cu",)))
        bodies = "".join(r.body.decode() for r in there.requests)
        assert there.requests[0].key == KEY
    for where in (bodies, reply.text, (run / NAME).read_text()):
        assert "canary" not in where and KEY not in where
    assert "[secret removed]" in bodies and "[secret removed]" in reply.text


def test_nothing_before_the_user_agreed(workspace: Path) -> None:
    with ScriptedEndpoint([say("x"), say("y")]) as there:
        said = configured(workspace, Options(there.url, "coder"))
        assert said is not None

        def told(files: tuple[str, ...]) -> str:
            return opened(said, workspace, files, said.ledger()).ask(ask()).text

        with pytest.raises(NotApproved, match=r"Send 1 file to the model coder at http.*\? a\.cu"):
            told(("a.cu",))
        assert not there.all_requests
        agree(said, workspace)
        assert told(("a.cu",)) == "x"
        with pytest.raises(NotApproved, match=r"Send also 1 file .*b\.cu"):
            told(("a.cu", "b.cu"))
        with pytest.raises(NotApproved, match=r"nobody agreed to sending a\.cu"):
            told(())
        assert len(there.all_requests) == 1
        Approvals().revoke(workspace)
        with pytest.raises(NotApproved):
            told(("a.cu",))
        assert len(there.all_requests) == 1


def test_a_yes_is_taken_back_by_a_command(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = configured(workspace, Options("http://127.0.0.1:9/v1", "coder"))
    assert said is not None
    agree(said, workspace)
    (command,) = needed(workspace, None, (), [Command("make app", "x.toml")], approved=())
    Approvals().record(command)
    for expected in (
        {"taken back: sending a.cu to http://127.0.0.1:9/v1", "taken back: executing make app"},
        {"nothing was agreed to for this program"},
    ):
        assert main(["stitch", str(workspace), "--revoke"]) == 0
        assert set(capsys.readouterr().out.splitlines()) == expected
    with pytest.raises(NotApproved):
        opened(said, workspace, ("a.cu",), said.ledger())


def test_an_endpoint_of_the_workspace_gets_no_key(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STITCHCUDA_LLM_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "canary-openai")
    with ScriptedEndpoint([say("x")]) as there:
        (workspace / "stitchcuda.toml").write_text(f'[llm]\nbase_url = "{there.url}"\nmodel = "coder"\n')
        said = configured(workspace)
        assert said is not None and KEY not in repr(said)
        with pytest.raises(NotApproved) as error:
            opened(said, workspace, ("a.cu",), said.ledger())
        assert "it is the workspace's, not yours" in str(error.value) and "Your key goes along" in str(error.value)
        assert not there.all_requests
        agree(said, workspace)
        model = opened(said, workspace, ("a.cu",), said.ledger())
        model.ask(ask())
        assert there.requests[0].key == KEY and "canary" not in there.sent
    with ScriptedEndpoint() as other:
        (workspace / "stitchcuda.toml").write_text(f'[llm]\nbase_url = "{other.url}"\nmodel = "coder"\n')
        said = configured(workspace)
        assert said is not None
        with pytest.raises(NotApproved):
            opened(said, workspace, ("a.cu",), said.ledger())
        assert not other.all_requests


@pytest.mark.parametrize(("api", "stream"), FORMS)
@pytest.mark.parametrize("budget", [Budget(tokens=3000), Budget(money=0.02)], ids=["tokens", "money"])
def test_no_budget_is_overrun(budget: Budget, api: str, stream: bool) -> None:
    """The model answers as long as it may, every time."""
    prices = Prices(input=1.0, output=10.0)
    with ScriptedEndpoint(
        then=lambda r: say("x" * 50, usage=(len(r.body) // 3, r.json.get("max_tokens") or r.json["max_output_tokens"]))
    ) as there:
        one = talk(there, api, stream, budget=budget, prices=prices)
        with pytest.raises(BudgetSpent) as spent:
            for _ in range(50):
                one.client.ask(ask())
        assert spent.value.what == ("tokens" if budget.tokens else "money")
        now = one.ledger.spent
        assert now.tokens <= (budget.tokens or now.tokens) and now.money <= (budget.money or now.money) + 1e-12
        assert len(there.requests) >= 1


def test_what_is_asked_again_is_in_the_budget() -> None:
    with ScriptedEndpoint([call("symbol"), fail(500), say("x", usage=(100, 5))]) as there:
        one = talk(there, budget=Budget(tokens=20_000))
        one.client.ask(ask("x", None, TOOL))
        one.client.ask(ask())
        assert one.ledger.spent.requests == 2
    ledger = Ledger(Budget(rounds=2))
    ledger.begin_round()
    ledger.begin_round()
    with pytest.raises(BudgetSpent, match="2 of 2"):
        ledger.begin_round()


def test_nothing_is_imported_without_an_endpoint(workspace: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from stitchcuda.agent.model.opening import configured; "
        f"assert configured(Path({str(workspace)!r})) is None; "
        "print([m for m in ('openai', 'httpx2', 'asyncio', 'ssl') if m in sys.modules])"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ), cwd=workspace)
    assert done.stdout.strip() == "[]"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from stitchcuda.agent.model.messages import ModelError

    monkeypatch.setitem(sys.modules, "openai", None)
    with ScriptedEndpoint() as there:
        with pytest.raises(ModelError, match=r"pip install 'stitchcuda\[llm\]'"):
            talk(there).client.ask(ask())
        assert not there.all_requests
