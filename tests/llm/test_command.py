"""`stitchcuda stitch --proposer llm` as a user sees it: what must be agreed to, what is told, what it costs, what is kept."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stitchcuda.agent import journal
from stitchcuda.agent.model import transcript
from stitchcuda.agent.proposing import Analyser
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.server.cli import runs, stitch
from stitchcuda.server.cli.dispatch import main

from tests.llm.answers import Answer, fail, hang, say_json
from tests.llm.endpoint import ScriptedEndpoint
from tests.llm.scenario import FASTER, KEY, code, fix, mark, nothing_left, plan, remark
from tests.llm.scripted_hub import ScriptedHub, check, write_program

GOOD = (plan(), code(mark(FASTER)), nothing_left())
VARIABLES = ("STITCHCUDA_LLM_URL", "STITCHCUDA_LLM_MODEL", "STITCHCUDA_LLM_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ScriptedHub:
    """Also a program in `p` of the current folder, and folders of its own for what is kept."""
    hub = ScriptedHub()
    for module in (stitch, runs):
        monkeypatch.setattr(module, "real_machinery", hub.machinery)
    monkeypatch.setattr(runs, "static_analyser", lambda: Analyser(analyse, check))
    monkeypatch.setattr(runs, "TRANSFORMS", hub.transforms)
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    write_program(Path("p"))
    return hub


def mine(monkeypatch: pytest.MonkeyPatch, endpoint: ScriptedEndpoint) -> None:
    monkeypatch.setenv("STITCHCUDA_LLM_URL", endpoint.url)
    monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "coder")
    monkeypatch.setenv("STITCHCUDA_LLM_KEY", KEY)


def theirs(endpoint: ScriptedEndpoint, more: str = "") -> None:
    Path("p/stitchcuda.toml").write_text(f'[llm]\nbase_url = "{endpoint.url}"\nmodel = "coder"\n{more}')


def test_from_settings_to_a_version_and_its_replay(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint(GOOD, key=KEY) as endpoint:
        mine(monkeypatch, endpoint)
        words = ["stitch", "p", "--proposer", "both", "--approve", endpoint.url]
        assert main([*words, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert endpoint.left == 0 and {r.key for r in endpoint.requests} == {KEY}
    value = json.loads(out)
    assert value["outcome"] == "improved" and [u["transform"] for u in value["units"]] == ["remove-wait", "model"]
    assert value["model"] == value["model"] | {"endpoint": endpoint.url, "model": "coder", "rounds": 3, "problem": ""}
    lines = err.splitlines()
    told = next(k for k, line in enumerate(lines) if "may be sent 2 files: kernels.cuh, main.cu" in line)
    asked = next(k for k, line in enumerate(lines) if "round 1 of 12" in line)
    assert endpoint.url in lines[told] and told < asked  # before the first request
    assert any("round 2 of 12, so far" in line and "tokens" in line for line in lines)
    folder = Path(value["run_dir"])
    assert journal.text_digest((folder / transcript.NAME).read_bytes()) == value["model"]["transcript"]
    assert main(["runs", "replay"]) == 0
    assert "decisions of the model's part: 4 as recorded" in capsys.readouterr().out
    assert main(["runs", "replay", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == {"same": 4, "difference": "", "reworded": []}


def test_the_words_that_the_parser_did_not_read_are_asked_about_and_replayed(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "Please speed this up; our driver cannot record launches for later"
    field = {"field": "forbid", "value": '"cuda-graph"', "words": "cannot record launches for later"}
    question = {"field": "hardware", "text": "Which driver?", "options": ["470", "570"]}
    with ScriptedEndpoint([say_json({"added": [field], "questions": [question]}), *GOOD]) as endpoint:
        mine(monkeypatch, endpoint)
        Path("p/stitchcuda.toml").write_text(f"[contract]\nintent = {json.dumps(words)}\n")
        assert main(["stitch", "p", "--proposer", "llm", "--intent", words]) == 2  # nobody agreed yet
        assert not endpoint.all_requests and not Path("cache").exists()
        assert main(["contract", words, "--format", "json"]) == 0  # reads by itself
        capsys.readouterr()
        assert main(["stitch", "p", "--proposer", "both", "--approve", endpoint.url, "--format", "json"]) == 0
        assert endpoint.left == 0
    out, err = capsys.readouterr()
    value = json.loads(out)
    assert value["contract"]["forbid"] == ["cuda-graph"] and value["contract"]["questions"] == [question]
    assert value["model"]["rounds"] == 4 and value["model"]["anchor"]["problem"] == ""
    assert err.count("question about hardware: Which driver? (470 / 570)") == 1
    assert hub.requests[-1].contract.forbid == ("cuda-graph",)
    assert main(["runs", "replay"]) == 0
    assert "decisions of the model's part: 5 as recorded" in capsys.readouterr().out
    file = Path(value["run_dir"]) / "contract.json"
    file.write_text(file.read_text().replace("cuda-graph", "fuse"))
    assert main(["runs", "replay"]) == 1
    assert "differs: the contract: forbid[0]" in capsys.readouterr().out


def test_an_anchor_of_no_use_is_told(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint([fail(401), *GOOD]) as endpoint:
        mine(monkeypatch, endpoint)
        words = ["stitch", "p", "--proposer", "llm", "--approve", endpoint.url, "--intent", "mind the gap"]
        assert main([*words, "--progress", "none"]) == 0 and endpoint.left == 0
    err = capsys.readouterr().err
    assert "the model did not help to read the request: " in err and "does not take the key" in err and KEY not in err


def test_the_page_says_who_was_asked_and_what_it_cost(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path("config") / "stitchcuda").mkdir(parents=True)
    Path("config/stitchcuda/stitchcuda.toml").write_text("[llm]\ninput_price = 1.0\noutput_price = 4.0\n")
    with ScriptedEndpoint(GOOD) as endpoint:
        mine(monkeypatch, endpoint)
        words = ["stitch", "p", "--proposer", "llm", "--approve", endpoint.url, "--max-cost", "5", "--rounds", "5"]
        assert main(words) == 0
    out, err = capsys.readouterr()
    assert f"model: coder at {endpoint.url}, 3 rounds, " in out and " spent" in out
    assert "remove-wait" not in out and "round 3 of 5" in err and " spent" in err


def test_a_replay_that_differs_is_1(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint(GOOD) as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "both", "--approve", endpoint.url]) == 0
    record = journal.find(None)
    file = record.folder / transcript.NAME
    file.write_text(file.read_text().replace("speed 1.5", "speed 1.6"))
    capsys.readouterr()
    assert main(["runs", "replay"]) == 1
    assert "differs: decision 2: recorded" in capsys.readouterr().out


@pytest.mark.parametrize("whose", ["mine", "theirs"])
def test_nothing_is_sent_before_the_user_agrees(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whose: str
) -> None:
    """Without a terminal it is refused with the command that agrees; the yes is kept for this program."""
    with ScriptedEndpoint(GOOD) as endpoint:
        theirs(endpoint) if whose == "theirs" else mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "llm"]) == 2
        err = capsys.readouterr().err
        command = f"stitchcuda stitch p --proposer llm --approve {endpoint.url}"
        assert command in err and "kernels.cuh, main.cu" in err and not endpoint.all_requests
        assert ("it is the workspace's, not yours" in err) == (whose == "theirs")
        assert not hub.requests  # nothing was built or run either
        assert main(["stitch", "p", "--proposer", "llm", "--approve", "http://127.0.0.1:1/v1"]) == 2
        assert not endpoint.all_requests
        assert main(command.split()[1:]) == 0 and endpoint.left == 0
    with ScriptedEndpoint([nothing_left()]) as other:
        theirs(other) if whose == "theirs" else mine(monkeypatch, other)
        assert main(["stitch", "p", "--proposer", "llm"]) == 2 and not other.all_requests  # another address


def test_the_command_that_agrees_keeps_every_limit(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who pastes it must not get a run that builds, or spends more, than the one that was asked for."""
    with ScriptedEndpoint(GOOD) as endpoint:
        mine(monkeypatch, endpoint)
        words = ["stitch", "p", "--no-run", "--intent", "twice as fast", "--proposer", "llm", "--max-tokens", "5"]
        assert main(words) == 2
        command = (
            capsys.readouterr()
            .err.strip()
            .splitlines()[-1]
            .removeprefix("Nothing was sent or executed. If you agree: ")
        )
        assert shlex.split(command) == ["stitchcuda", *words, "--approve", endpoint.url]
        assert main([*words, "--questions", "--format=json", "--progress", "none"]) == 0
        assert json.loads(capsys.readouterr().out)["command"] == command


def test_new_files_are_asked_about(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint(then=nothing_left()) as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "llm", "--approve", endpoint.url]) == 0
        assert main(["stitch", "p", "--proposer", "llm"]) == 0  # the yes was kept
        Path("p/private.cuh").write_text("#pragma once\n")
        seen = len(endpoint.all_requests)
        capsys.readouterr()
        assert main(["stitch", "p", "--proposer", "llm"]) == 2
        assert "private.cuh" in capsys.readouterr().err and len(endpoint.all_requests) == seen


def test_a_workspace_gets_no_key_that_is_not_for_it(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-and-only-for-openai-0123456789")
    with ScriptedEndpoint([nothing_left()]) as endpoint:
        theirs(endpoint)
        assert main(["stitch", "p", "--proposer", "llm", "--approve", endpoint.url]) == 0
        assert "sk-mine" not in endpoint.sent and endpoint.requests


def test_commands_of_the_workspace_are_agreed_to_as_well(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint(then=nothing_left()) as endpoint:
        mine(monkeypatch, endpoint)
        Path("p/stitchcuda.toml").write_text('[build]\ncommand = "make -j all"\n')
        words = ["stitch", "p", "--proposer", "llm", "--approve", endpoint.url]
        assert main(words) == 2
        assert "make -j all" in capsys.readouterr().err and not endpoint.all_requests and not hub.requests
        assert main([*words, "--no-run"]) == 0  # nothing is executed then
        assert main([*words, "--approve", "make -j all"]) == 0 and hub.requests[-1].may_run


def test_a_command_is_seen_with_the_texts_that_are_put_into_it(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint(then=nothing_left()) as endpoint:
        mine(monkeypatch, endpoint)
        words = ["stitch", "p", "--proposer", "llm", "--approve", endpoint.url, "--approve", "sh -c {size}"]
        Path("p/stitchcuda.toml").write_text('[run]\ncommand = "sh -c {size}"\nsizes = ["64", "1024x8"]\n')
        assert main(words) == 0 and hub.requests  # numbers
        hub.requests.clear()
        capsys.readouterr()
        Path("p/stitchcuda.toml").write_text('[run]\ncommand = "sh -c {size}"\nsizes = ["64", "curl"]\n')
        assert main(words) == 2
        assert "\nsh -c curl\n" in capsys.readouterr().err and not hub.requests
        assert main([*words, "--approve", "sh -c curl"]) == 0 and hub.requests


def test_one_command_agrees_to_all(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also to a command that a terminal would not show as it is."""
    build, run_ = "make \x1b[2K -j 'all'", "-x/main"
    with ScriptedEndpoint([nothing_left()]) as endpoint:
        mine(monkeypatch, endpoint)
        text = f"[build]\ncommand = {json.dumps(build)}\n[run]\ncommand = {json.dumps(run_)}\n"
        Path("p/stitchcuda.toml").write_text(text)
        assert main(["stitch", "p", "--proposer", "llm"]) == 2
        err = capsys.readouterr().err
        assert not endpoint.all_requests and "\x1b" not in err
        assert err.count("Send 2 files") == 1 and err.count("Execute this command") == 2
        command = err.rstrip("\n").rpartition("If you agree: ")[2]
        shell = ["bash", "-c", f"stitchcuda() {{ printf '%s\\0' \"$@\"; }}; {command}"]
        done = subprocess.run(
            shell, capture_output=True, check=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"}
        )
        words = done.stdout.decode().split("\0")[:-1]
        assert words == [*words[:4], "--approve", endpoint.url, "--approve", build, f"--approve={run_}"]
        assert main(words) == 0 and endpoint.left == 0 and hub.requests[-1].may_run


def test_a_no_at_the_terminal_ends_the_questions(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint() as endpoint:
        mine(monkeypatch, endpoint)
        Path("p/stitchcuda.toml").write_text('[build]\ncommand = "make"\n[run]\ncommand = "./main"\n')
        answering(monkeypatch, "y\nn\ny\n")
        assert main(["stitch", "p", "--proposer", "llm", "--progress", "none"]) == 2
        err = capsys.readouterr().err
        assert err.count("[y/N]") == 2 and err.rstrip().endswith("--proposer llm --approve make --approve ./main")


def answering(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(words))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


@pytest.mark.parametrize(("words", "code_"), [("y\n", 0), ("yes\n", 0), ("n\n", 2), ("\n", 2), ("", 2)])
def test_on_a_terminal_it_asks(hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, words: str, code_: int) -> None:
    with ScriptedEndpoint([nothing_left()]) as endpoint:
        mine(monkeypatch, endpoint)
        answering(monkeypatch, words)
        assert main(["stitch", "p", "--proposer", "llm", "--progress", "none"]) == code_
        assert bool(endpoint.all_requests) == (code_ == 0)


def test_files_that_are_never_sent_are_told(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p/stitchcuda.toml").write_text('[llm]\nnever_send = ["kernels.*"]\n')
    with ScriptedEndpoint([nothing_left()]) as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "llm", "--approve", endpoint.url, "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert "not sent: kernels.cuh (never sent: kernels.*)" in err
        assert json.loads(out)["model"]["files"] == ["main.cu"] and "x[i] *= 1.5f" not in endpoint.sent


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--proposer", "llm"], "no model is configured"),
        (["--rounds", "3"], "--rounds is for the model"),
        (["--approve", "x"], "--approve is for the model"),
        (["--proposer", "llm", "--rounds", "0"], "--rounds 0: give a number above 0"),
        (["--proposer", "llm", "--max-cost", "-1"], "--max-cost -1: give a number above 0"),
        (["--proposer", "llm", "--max-tokens", "0"], "--max-tokens 0"),
    ],
)
def test_what_cannot_start_is_2(
    hub: ScriptedHub, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["stitch", "p", *words]) == 2
    assert message in capsys.readouterr().err and not Path("cache").exists()


@pytest.mark.parametrize(
    ("url", "message"), [("localhost:8000", "http(s)://"), ("http://user:secret-word@host/v1", "a user or password")]
)
def test_an_address_that_is_none(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, message: str
) -> None:
    monkeypatch.setenv("STITCHCUDA_LLM_URL", url)
    assert main(["stitch", "p", "--proposer", "llm"]) == 2
    err = capsys.readouterr().err
    assert message in err and "secret-word" not in err


def test_a_budget_of_money_needs_prices(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint() as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "llm", "--max-cost", "1", "--approve", endpoint.url]) == 2
        assert "price" in capsys.readouterr().err and not endpoint.all_requests


def test_trouble_with_the_endpoint_is_told_and_the_rules_version_stays(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedEndpoint([fail(401)]) as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "both", "--approve", endpoint.url, "--diff"]) == 0
    out, err = capsys.readouterr()
    assert "-    wait();" in out and "does not take the key" in err and KEY not in err


def test_without_the_model_nothing_of_it_is_opened(hub: ScriptedHub) -> None:
    """A child process, so that nothing is imported yet."""
    code_ = (
        "import sys; from stitchcuda.server.cli.dispatch import main; main(['stitch', 'p', '--no-run']); "
        "sys.exit(str([m for m in sys.modules if m == 'openai' or m.endswith('agent.model.client')]))"
    )
    done = subprocess.run([sys.executable, "-c", code_], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.strip().endswith("[]")


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("answer", [hang(), hang(plan(), part=0.5)], ids=["no-headers", "half-a-body"])
def test_interrupting_aborts_the_request(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Answer
) -> None:
    """A real process with the real machinery; no GPU is needed until the model has answered."""
    with ScriptedEndpoint([answer]) as endpoint:
        mine(monkeypatch, endpoint)
        command = [sys.executable, "-m", "stitchcuda.server.cli", "stitch", "p", "--proposer", "llm", "--no-run"]
        command += ["--approve", endpoint.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            deadline = time.monotonic() + 60
            while not endpoint.requests and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)
            assert endpoint.requests, process.communicate()
            time.sleep(0.2)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert endpoint.requests[0].left_within(1.0)
            process.wait(10)
            assert process.returncode == 130 and time.monotonic() - sent < 3
        finally:
            process.kill()
            process.communicate()


def test_a_version_of_a_model_is_written_shown_taken_back_and_applied_in_parts(
    hub: ScriptedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {p.name: p.read_bytes() for p in Path("p").iterdir()}
    script = (plan("a"), code(mark("A_RACE")), fix(remark("A_RACE", FASTER)), nothing_left())
    with ScriptedEndpoint(script) as endpoint:
        mine(monkeypatch, endpoint)
        assert main(["stitch", "p", "--proposer", "both", "--approve", endpoint.url, "--write"]) == 0
    assert b"// speed 1.5" in Path("p/kernels.cuh").read_bytes() and b"wait();" not in Path("p/main.cu").read_bytes()
    record = journal.find(None)
    rule, model = record.best
    assert [u.transform for u in record.units] == ["remove-wait", "model", "model"]  # the rejected one is kept, too
    assert main(["runs", "revert"]) == 0
    assert {p.name: p.read_bytes() for p in Path("p").iterdir()} == before
    capsys.readouterr()
    assert main(["runs", "diff"]) == 0
    assert "+// speed 1.5" in capsys.readouterr().out
    assert main(["runs", "apply", "--units", model]) == 2  # it was made for the version of the rules
    assert f"builds on {rule}" in capsys.readouterr().err
    assert main(["runs", "apply", "--units", rule]) == 0
    assert b"// speed" not in Path("p/kernels.cuh").read_bytes() and b"wait();" not in Path("p/main.cu").read_bytes()
    rejected = record.units[1].id
    assert main(["runs", "apply", "--units", f"{rule},{rejected}"]) == 1  # judged, and rejected
    assert main(["runs", "apply", "--units", f"{rule},{model}"]) == 0
    assert main(["runs", "show"]) == 0
    assert f"* {model} model" in capsys.readouterr().out
