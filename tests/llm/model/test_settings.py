"""Which endpoint, key, budget and rules come out of options, the environment, the user's file and the workspace's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.agent.model.accounting import Budget, Prices
from stitchcuda.agent.model.endpoint import (
    NO_KEY,
    Api,
    Endpoint,
    NoEndpoint,
    Options,
    Origin,
    checked_url,
    choose_budget,
    choose_endpoint,
    choose_key,
)
from stitchcuda.agent.model.opening import configured, user_settings
from stitchcuda.agent.model.sending import NeverSend
from stitchcuda.agent.user_folders import config_folder, state_folder
from stitchcuda.analysis.contract.project import LlmSection
from stitchcuda.analysis.contract.project_text import parse_project

NONE = LlmSection()
A, B, C = (f"http://{name}.example.org/v1" for name in "abc")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "stitchcuda").mkdir(parents=True)
    return tmp_path / "config" / "stitchcuda"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w" / ".git").mkdir(parents=True)
    (tmp_path / "w" / "app").mkdir()
    return tmp_path / "w"


def test_what_the_user_says_goes_first() -> None:
    said = {
        "option": choose_endpoint(Options(A), {"STITCHCUDA_LLM_URL": B}, LlmSection(C), LlmSection(C)),
        "variable": choose_endpoint(Options(), {"STITCHCUDA_LLM_URL": A}, LlmSection(B), LlmSection(C)),
        "file": choose_endpoint(Options(), {"OPENAI_BASE_URL": B}, LlmSection(A), LlmSection(C)),
        "openai": choose_endpoint(Options(), {"OPENAI_BASE_URL": A}, NONE, LlmSection(C)),
    }
    for name, found in said.items():
        assert found is not None and (found.base_url, found.origin) == (A, Origin.USER), name
    found = choose_endpoint(Options(), {}, NONE, LlmSection(A), file="/w/stitchcuda.toml")
    assert found is not None and (found.base_url, found.origin) == (A, Origin.WORKSPACE)
    assert found.said_by == "/w/stitchcuda.toml"


def test_off_until_configured() -> None:
    nothing = {"OPENAI_API_KEY": "k", "STITCHCUDA_LLM_KEY": "k", "STITCHCUDA_LLM_MODEL": "m"}
    assert choose_endpoint(Options(model="m", key="k"), nothing, LlmSection(model="m"), LlmSection(model="m")) is None


def test_the_other_settings() -> None:
    user = LlmSection(A, "mine", "chat", "low", True, 60.0, input_price=1.0, output_price=2.0, cached_price=0.1)
    theirs = LlmSection(
        B, "theirs", "responses", "high", False, 5.0, input_price=0.5, output_price=9.0, cached_price=0.01
    )
    found = choose_endpoint(Options(), {}, user, theirs)
    assert found is not None
    assert found == Endpoint(
        A, "mine", Origin.USER, "your settings file", Api.CHAT, "low", False, found.prices, total=60.0
    )
    assert found.prices == Prices(1.0, 9.0, 0.1), "a workspace makes prices higher only"
    found = choose_endpoint(Options(api="responses", model="best", reasoning="none"), {}, user, theirs)
    assert found is not None and (found.api, found.model, found.reasoning) == (Api.RESPONSES, "best", "none")
    found = choose_endpoint(Options(), {"STITCHCUDA_LLM_MODEL": "env"}, user, theirs)
    assert found is not None and found.model == "env"
    found = choose_endpoint(Options(A), {}, NONE, NONE)
    assert found is not None and (found.api, found.stream, found.total, found.prices) == (
        Api.AUTO,
        True,
        900.0,
        Prices(),
    )


def test_the_dearer_price_of_what_is_cached() -> None:
    found = choose_endpoint(Options(A), {}, NONE, LlmSection(input_price=2.0, cached_price=0.001))
    assert found is not None and found.prices.cached is None


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000", "ftp://a/v1", "http://", "http:///v1", "//a/v1", "http://a:99999/v1", "http://a:x/v1", "a b",
        "http://user:canary@a/v1", "http://canary@a/v1", "https://a/v1?key=canary", "https://a/v1#canary", "http://[::1/v1",
        "file:///etc/passwd",
    ],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(NoEndpoint, match=r"^--url: ") as error:
        checked_url(url, "--url")
    assert "canary" not in str(error.value)


def test_addresses() -> None:
    for url in ("http://localhost:11434/v1", "https://api.openai.com/v1", "http://[::1]:8000/v1", "http://10.0.0.1"):
        assert checked_url(url, "") == checked_url(url + "/", "") == url
    local = [
        Endpoint(u).is_local
        for u in ("http://127.0.0.9/v1", "http://localhost/v1", "http://[::1]:1", "http://a.localhost")
    ]
    assert all(local)
    remote = ("http://10.0.0.1/v1", "http://localhost.example.org/v1", "http://127.0.0.1.example.org/v1")
    assert not any(Endpoint(u).is_local for u in remote)
    assert Endpoint("https://api.openai.com/v1").is_openai
    lies = ("http://api.openai.com/v1", "https://api.openai.com.example.org/v1", "https://example.org/api.openai.com")
    assert not any(Endpoint(u).is_openai for u in lies)


def test_keys() -> None:
    mine, theirs = Endpoint(A), Endpoint(A, origin=Origin.WORKSPACE)
    openai = Endpoint("https://api.openai.com/v1", origin=Origin.WORKSPACE)
    both = {"STITCHCUDA_LLM_KEY": "ours", "OPENAI_API_KEY": "openai"}
    assert choose_key(mine, Options(key="editor"), both) == "editor"
    assert choose_key(mine, Options(), both) == choose_key(theirs, Options(), both) == "ours"
    only = {"OPENAI_API_KEY": " openai\n"}
    assert choose_key(mine, Options(), only) == choose_key(openai, Options(), only) == "openai"
    assert choose_key(theirs, Options(), only) == NO_KEY and choose_key(mine, Options(), {}) == NO_KEY
    assert "editor" not in repr(Options(key="editor"))


def test_budgets() -> None:
    assert choose_budget(Budget(), NONE, NONE) == Budget()
    user = LlmSection(rounds=20, tokens=5_000_000, money=3.0, seconds=10.0)
    assert choose_budget(Budget(), user, NONE) == Budget(20, 5_000_000, 3.0, 10.0, None)
    assert choose_budget(Budget(tokens=7, money=9.0), user, NONE) == Budget(20, 7, 9.0, 10.0, None)
    greedy = LlmSection(rounds=10**6, tokens=10**9, money=1e6, seconds=1e5, gpu_seconds=1e5)
    assert choose_budget(Budget(), user, greedy).filled() == Budget(20, 5_000_000, 3.0, 10.0, 1800.0)
    assert choose_budget(Budget(), NONE, greedy).filled() == Budget(12, 1_000_000, 1e6, 3600.0, 1800.0)
    modest = LlmSection(rounds=1, tokens=10, money=0.5, seconds=2.0, gpu_seconds=3.0)
    assert choose_budget(Budget(tokens=99), user, modest) == Budget(1, 10, 0.5, 2.0, 3.0)
    assert choose_budget(Budget(), NONE, NONE).filled().money == math.inf


def test_a_program_in_a_repository(root: Path, home: Path) -> None:
    (home / "stitchcuda.toml").write_text('[llm]\nnever_send = ["mine/**"]\ntokens = 1000\n')
    (root / "stitchcuda.toml").write_text(
        f'[llm]\nbase_url = "{A}"\nmodel = "m"\nnever_send = ["app/private/"]\ntokens = 10000000\n'
    )
    said = configured(root / "app", environment={"STITCHCUDA_LLM_KEY": "canary"})
    assert said is not None and said.endpoint.origin is Origin.WORKSPACE
    assert said.endpoint.said_by == str(root / "stitchcuda.toml")
    assert said.never_send == (NeverSend(("mine/**",)), NeverSend(("app/private/",), root))
    assert said.budget.tokens == 1000 and "canary" not in repr(said)
    assert said.ledger().spent.tokens == 0


def test_nothing_is_configured(root: Path) -> None:
    assert user_settings() == NONE
    assert configured(root, environment={}) is None
    (root / "stitchcuda.toml").write_text('[llm]\nnever_send = ["x"]\n')
    assert configured(root, environment={}) is None


def test_money_cannot_be_counted_without_prices(root: Path, home: Path) -> None:
    (home / "stitchcuda.toml").write_text("[llm]\nmoney = 1.0\n")
    with pytest.raises(NoEndpoint, match="input_price and output_price"):
        configured(root, Options(A), environment={})
    (home / "stitchcuda.toml").write_text("[llm]\nmoney = 1.0\noutput_price = 10.0\n")
    said = configured(root, Options(A), environment={})
    assert said is not None and said.ledger().prices.output == 10.0


@pytest.mark.parametrize("where", ["home", "root"])
def test_mistakes_are_named(where: str, root: Path, home: Path) -> None:
    folder = home if where == "home" else root
    (folder / "stitchcuda.toml").write_text('[llm]\napi = "rest"\ntokens = 0\nkey = "x"\n')
    with pytest.raises(NoEndpoint) as error:
        configured(root, environment={"STITCHCUDA_LLM_URL": A})
    for said in (str(folder / "stitchcuda.toml"), "llm.api", "auto, chat, responses", "llm.tokens", "llm.key: unknown"):
        assert said in str(error.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('reasoning = "extreme"', "one of none, minimal"),
        ("stream = 1", "true or false"),
        ("timeout = 0", "seconds, above 0"),
        ("rounds = 1.5", "a whole number above 0"),
        ("tokens = -1", "a whole number above 0"),
        ("money = 0", "an amount above 0"),
        ("input_price = nan", "an amount above 0"),
        ("output_price = inf", "an amount above 0"),
        ("cached_price = true", "an amount above 0"),
        ('never_send = ["/etc"]', "patterns of files below"),
        ('never_send = ["../x"]', "patterns of files below"),
        ('never_send = "x"', "a list of texts"),
        ("gpu_seconds = 1e9", "at most 86400"),
    ],
)
def test_values_that_are_wrong(line: str, expected: str) -> None:
    project, problems = parse_project(f"[llm]\n{line}\n")
    assert project.llm == NONE and len(problems) == 1 and expected in str(problems[0])


def test_folders_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config_folder() == tmp_path / "config" / "stitchcuda"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/path")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert state_folder() == tmp_path / ".local" / "state" / "stitchcuda"
    monkeypatch.setattr("sys.platform", "darwin")
    assert state_folder() == tmp_path / "Library" / "Application Support" / "stitchcuda" / "State"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert state_folder() == tmp_path / "local" / "stitchcuda" / "State"


def test_an_endpoint_is_compared_by_all_that_counts() -> None:
    assert Endpoint(A) == Endpoint(A) != replace(Endpoint(A), model="x")
