"""No secret stays in a text, and a text without secrets stays as it is."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stitchcuda.agent.model.secrets import REMOVED, Redactor, speaks_of_secrets

ROOT = Path(__file__).parents[3]
PLAIN = Redactor({})

alnum = string.ascii_letters + string.digits
lower_hex = "0123456789abcdef"


def _random(alphabet: str, low: int, high: int | None = None) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=low, max_size=high or low)


tokens = st.one_of(
    st.builds("AKIA{}".format, _random(string.ascii_uppercase + string.digits, 16)),
    st.builds("gh{}_{}".format, st.sampled_from("pousr"), _random(alnum, 36)),
    st.builds("github_pat_{}".format, _random(alnum + "_", 40, 60)),
    st.builds("glpat-{}".format, _random(alnum, 20, 24)),
    st.builds("xoxb-{}".format, _random(string.digits, 24)),
    st.builds("sk-{}".format, _random(alnum, 32, 60)),
    st.builds("sk-proj-{}".format, _random(alnum + "_-", 40, 80)),
    st.builds("sk_live_{}".format, _random(alnum, 24)),
    st.builds("nvapi-{}".format, _random(alnum + "_-", 40, 64)),
    st.builds("hf_{}".format, _random(alnum, 34)),
    st.builds("AIza{}".format, _random(alnum + "_-", 35)),
    st.builds("npm_{}".format, _random(alnum, 36)),
    st.builds("eyJ{}.eyJ{}.{}".format, *[_random(alnum + "_-", 20, 40)] * 3),
    st.builds("dop_v1_{}".format, _random(lower_hex, 64)),
)
around = st.text(st.sampled_from(" \n\t\"'`,;:=()<>{}|漢€") | st.characters(codec="utf-8"), max_size=30)


@given(around, tokens, around)
def test_tokens_of_services(before: str, token: str, after: str) -> None:
    """Wherever they stand, but for inside of a longer word."""
    assume(not before or not (before[-1].isalnum() or before[-1] == "_"))
    found = PLAIN.clean(before + token + after)
    assert token not in found.text and (REMOVED in found.text) and sum(found.removed.values()) >= 1
    body = token.split("_")[-1].split("-")[-1]
    assert body not in found.text or body in before + after


@given(
    st.sampled_from(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]),
    st.lists(_random(alnum + "+/", 60, 64), min_size=1),
    around,
)
def test_private_keys(kind: str, lines: list[str], after: str) -> None:
    assume("-----" not in after)
    body = "\n".join(lines)
    text = f"// key\n-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----{after}"
    found = PLAIN.text(text)
    assert not any(line in found for line in lines)
    assert found.startswith("// key\n") and found.count("\n") == text.count("\n")


def test_a_private_key_that_is_cut_off() -> None:
    assert "canary" not in PLAIN.text("-----BEGIN RSA PRIVATE KEY-----\ncanarycanary\ncanary")
    assert "canary" not in PLAIN.text('"-----BEGIN PRIVATE KEY-----\\ncanary\\n-----END PRIVATE KEY-----"')


@given(_random(alnum, 3, 10), _random(alnum + "!$%&*+._~-", 4, 30))
def test_passwords_in_addresses(user: str, password: str) -> None:
    assume(password not in f"https://{user}@example.org/path")
    assert PLAIN.text(f"git clone https://{user}:{password}@example.org/path") == (
        f"git clone https://{REMOVED}@example.org/path"
    )


@pytest.mark.parametrize(
    "text",
    [
        'password = "{}"',
        'db_password: "{}"',
        "DB_PASSWORD={}",
        "export ADMIN_PASSWD={}",
        '"password": "{}"',
        "{{'passwd': '{}'}}",
        'const char *kApiKey = "{}";',
        'static const std::string accessToken("x"), secret_key = "{}";',
        '#define CLIENT_SECRET "{}"\nauth_token = "{}"',
        'setenv("API_TOKEN", "{}", 1)',
        "API_KEY={}",
        "api_key: {}",
        "curl --token {} x",
        "Authorization: Bearer {}",
        'x-api-key: "{}"',
        "https://example.org/v1?api_key={}&x=1",
        "https://{}:x@example.org",
        "wandb_api_key = '{}'",
        'std::string token("{}");',
        'const std::string api_key{{ "{}" }};',
    ],
)
@given(value=_random(alnum, 24, 40))
def test_what_is_assigned_to_names_of_secrets(text: str, value: str) -> None:
    assume(sum(c.isdigit() for c in value) >= 4 and sum(c.isalpha() for c in value) >= 4 and len(set(value)) > 12)
    assume(not value[:-1].rstrip(string.digits).isalpha())  # a word with a number behind it may be a name
    if text.startswith("#define"):
        text = text.partition("\n")[2]
    assert value not in PLAIN.text(text.format(value))


def test_keys_of_an_environment_with_few_digits() -> None:
    key = "wJalrXUtnFEMI/KxMDENG/bPxRfiCYvQbTLmZgKo"
    assert key not in PLAIN.text(f"# AWS_SECRET_ACCESS_KEY={key}\n")
    path = "build/release/third_party/keys/generated"
    assert path in PLAIN.text(f"SECRET_KEY_FILES={path}\n")


def test_short_passwords_too() -> None:
    assert PLAIN.text('password = "hunter2"') == f'password = "{REMOVED}"'
    assert PLAIN.text("MYSQL_PASSWORD=hunter2\n") == f"MYSQL_PASSWORD={REMOVED}\n"


@pytest.mark.parametrize(
    "text",
    [
        "int token = tokens[i];",
        'char *token = strtok(line, ",");',
        "password = getpass()",
        "password = os.environ['DB_PASSWORD']",
        'printf("password: %s\\n", x);',
        'token = f"{name}_{step}"',
        '"hidden_size": 4096, "token_type": "bpe"',
        "const int key = 0x9E3779B97F4A7C15ull;",
        "api_key = config.api_key_1",
        'if (strcmp(token, "FORMAT=32-bit_rle_rgbe") == 0)',
        "probe.key = RISCV_HWPROBE_KEY_IMA_EXT_0;",
        "auth_token = <your token here>",
        'api_key = "your-api-key-goes-here-1234"',
        "--token-count 128 --max-tokens 4096",
        "cub::KeyValuePair<int, float> key_value = kv;",
        "https://example.org/a/b?x=1#c",
        "float2 a = make_float2(1e-3f, 2.0f); // sk-learn",
        "id = 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "sha256 = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_code_stays_as_it_is(text: str) -> None:
    found = PLAIN.clean(text)
    assert (found.text, dict(found.removed)) == (text, {})


def test_this_repository_stays_as_it_is() -> None:
    """Sources and pages without secrets lose nothing."""
    files = [
        path
        for part in ("examples", "docs", "tests/fixtures", "agent", "gpu_validate", "server")
        for path in (ROOT / part).rglob("*")
        if path.is_file() and path.suffix in {".cu", ".cuh", ".cpp", ".h", ".py", ".md", ".toml", ".txt"}
    ]
    assert len(files) > 300
    changed = {
        str(p): f.removed for p in files if (f := PLAIN.clean(p.read_text(encoding="utf-8", errors="replace"))).removed
    }
    assert changed == {}


# ------------------------------------------------------------------------------------------------------- values of variables

values = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=6, max_size=30).filter(
    lambda v: len(v.strip()) >= 6 and set(v.strip()) - set("/.") and not v.strip().isdigit()
)


@given(st.lists(values, min_size=1, max_size=4), st.data())
def test_values_of_secret_variables(secrets: list[str], data: st.DataObject) -> None:
    """Wherever they stand, also inside of words, of each other and of what was removed already."""
    redactor = Redactor({f"V{k}_TOKEN": value for k, value in enumerate(secrets)})
    parts = data.draw(st.lists(st.sampled_from(secrets) | st.text(max_size=10), max_size=6))
    found = redactor.text("".join(parts))
    kept = [v.strip() for v in secrets if v.strip().lower() not in ("false", "default")]
    assert not [v for v in kept if v in found and v not in ("[secret removed]", "***")]


def test_values_in_other_forms() -> None:
    redactor = Redactor({"X_PASSWORD": 'a"b\\c d€'}, known=["0123456789ab"])
    for text in ('a"b\\c d€', '"a\\"b\\\\c d€"', '"a\\"b\\\\c d\\u20ac"', "?p=a%22b%5Cc%20d%E2%82%AC&"):
        assert REMOVED in redactor.text(text) and "b\\" not in redactor.text(text) and "%5C" not in redactor.text(text)
    assert redactor.text("key 0123456789ab.") == f"key {REMOVED}."


def test_which_variables_are_secret() -> None:
    for name in (
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",
        "dbPassword",
        "HF_TOKEN",
        "NPM_AUTH",
        "PGPASSWORD",
    ):
        assert speaks_of_secrets(name), name
    for name in (
        "TOKENIZERS_PARALLELISM",
        "KEYBOARD",
        "PATH",
        "MONKEY",
        "SSH_AGENT_PID",
        "AUTHOR",
        "KEY_COUNT",
        "MAX_TOKENS",
    ):
        assert not speaks_of_secrets(name), name


def test_plain_values_are_no_secrets(tmp_path: Path) -> None:
    redactor = Redactor({"A_TOKEN": "false", "B_TOKEN": "12345", "SSH_AUTH_SOCK": str(tmp_path), "C_SECRET": "abc"})
    text = f"false 12345 {tmp_path} abc"
    assert redactor.text(text) == text


def test_values_that_look_like_paths_or_numbers() -> None:
    redactor = Redactor({"A_SECRET": "/9j/4AAQSkZJRg", "B_PASSWORD": "20010911"}, known=["/k/e-y"])
    assert redactor.text("x/9j/4AAQSkZJRg 20010911 /k/e-y") == f"x{REMOVED} {REMOVED} {REMOVED}"


def test_keys_of_anything() -> None:
    """Names that only end in key are keys of maps more often: there the value decides."""
    key = "9f86d081884c7d659a2feaa0c55ad015"
    for text in (f"KAGGLE_KEY={key}", f'deepseek_key = "{key}"', f'"key": "{key}"'):
        assert key not in PLAIN.text(text)
    assert key not in Redactor({"KAGGLE_KEY": key}).text(f"x{key}y")
    for plain in (
        'key = "layers.10.attention.wq.weight"',
        'sort_key = "timestamp_2024_01_01_00"',
        "probe.key = ABCDEFGHIJ_0123456789_0",
    ):
        assert PLAIN.text(plain) == plain
    assert Redactor({"KAGGLE_KEY": "my-own-name"}).text("my-own-name") == "my-own-name"


def test_a_value_that_is_in_the_placeholder() -> None:
    redactor = Redactor({"A_SECRET": "removed"})
    assert redactor.text("it was removed") == "it was ***"


@given(st.text(max_size=200))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = PLAIN.text(text)
    assert PLAIN.text(once) == once and once.count("\n") == text.count("\n")


@given(around, tokens, around)
def test_cleaning_a_secret_twice(before: str, token: str, after: str) -> None:
    once = PLAIN.text(before + token + after)
    assert PLAIN.text(once) == once
