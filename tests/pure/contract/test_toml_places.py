"""Places of TOML keys and values, also in texts that are being typed."""

from __future__ import annotations

import random
import tomllib

import pytest
from stitchcuda.analysis.contract.toml_places import place_of, place_of_error, statements

TEXT = '''\
# 😀 a comment = 1
[run]
timeout = "x" # no
"quoted key" = 3
sizes = [ # [comment ]
  1, "]",
]
env = { A = "1", B = 'it = 2' }
[check.severity]
stream-race-raw = "off"
[ build ]
command = """
a = 3
"""
directory = '../x'
not yet
x.y = 4
'''


def test_statements() -> None:
    told = [
        (".".join(s.path), TEXT[slice(*s.key)], TEXT[slice(*s.value)] if s.value is not None else None)
        for s in statements(TEXT)
    ]
    assert told == [
        ("run", "run", None),
        ("run.timeout", "timeout", '"x"'),
        ("run.quoted key", '"quoted key"', "3"),
        ("run.sizes", "sizes", '[ # [comment ]\n  1, "]",\n]'),
        ("run.env", "env", "{ A = \"1\", B = 'it = 2' }"),
        ("check.severity", "check.severity", None),
        ("check.severity.stream-race-raw", "stream-race-raw", '"off"'),
        ("build", "build", None),
        ("build.command", "command", '"""\na = 3\n"""'),
        ("build.directory", "directory", "'../x'"),
        ("build.x.y", "x.y", "4"),
    ]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("run.timeout", '"x"'),
        ("run.env.A", "env"),
        ("check.severity", "check.severity"),
        ("build.nothing", "build"),
        ("nothing", "# 😀 a comment = 1"),
    ],
)
def test_mistakes_stand_where_they_are(key: str, shown: str) -> None:
    assert TEXT[slice(*place_of(TEXT, key))] == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[run]\ntimeout = \n", "timeout ="),
        ("[run\n", "[run"),
        ('a = "x\n', 'a = "x'),
        ("[run]\nx = 1\nx = 2\n", "x = 2"),
        ("a = 1\nb = [1,2\n\n", "b = [1,2"),
    ],
)
def test_what_is_no_toml_is_shown_on_its_line(text: str, shown: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    assert text[slice(*place_of_error(text, str(caught.value)))] == shown


def test_any_text_ends_and_spans_stay_inside() -> None:
    draw = random.Random(7)
    for _ in range(400):
        text = "".join(draw.choice("[]{}=.,\"'\\\n\t #ab1😀") for _ in range(draw.randrange(60)))
        for statement in statements(text):
            for start, end in (statement.key, statement.value or (0, 0)):
                assert 0 <= start <= end <= len(text)
        place_of_error(text, "no place")
