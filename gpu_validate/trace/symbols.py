"""Names of functions as compilers and demanglers write them."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(?: (?:const|volatile|&&?|\[clone [^\]]*\]))+$")  # behind the parameters


def plain_name(symbol: str) -> str:
    """A demangled function without its arguments and return type: "void f<int>(int*)" is "f<int>"."""
    depth = 0
    whole = _SUFFIX.sub("", symbol)
    for at in range(len(whole) - 1, -1, -1) if whole.endswith(")") else ():
        if symbol[at] == ")":
            depth += 1
        elif symbol[at] == "(":
            depth -= 1
            if depth == 0:
                symbol = symbol[:at]
                break
    # a return type stands before the last space that is outside of template arguments (only templates have one)
    depth = 0
    for at in range(len(symbol) - 1, -1, -1):
        depth += {">": 1, "<": -1, ")": 1, "(": -1}.get(symbol[at], 0)
        if symbol[at] == " " and depth == 0:
            return symbol[at + 1 :]
    return symbol
