"""Text of others inside a prompt: between marks that it cannot write itself.

The mark is made from the text, so that a request is the same whenever it is made again; a text that holds its own mark gets
another one.
"""

from __future__ import annotations

import hashlib
import json

_LABEL = 200  # characters


def block(label: str, text: str) -> str:
    """`text` as data. The label is quoted as JSON: a file's name is the user's text, too."""
    shown = json.dumps(label[:_LABEL])
    mark = mark_for(shown + text)
    end = "" if text.endswith("\n") else "\n"
    return f"[data {mark}: {shown}]\n{text}{end}[end of data {mark}]"


def mark_for(text: str) -> str:
    """32 hexadecimal digits that do not occur in the text."""
    for number in range(1 << 20):
        mark = hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=16, salt=number.to_bytes(4, "little")
        ).hexdigest()
        if mark not in text:
            return mark
    raise AssertionError("a text cannot hold a million of its own digests")


def cut(text: str, most: int) -> str:
    """At most `most` characters, and how many are missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} more characters are not shown]"
