"""Branches of `#if`: which of them CUDA's compiler takes, as far as the platform decides it."""

from __future__ import annotations

import re

_PART = re.compile(
    r"\s*(?:(?P<defined>defined\s*(?:\(\s*(?P<inside>\w+)\s*\)|(?P<bare>\w+)))|(?P<sign>&&|\|\||!(?!=)|[()])"
    r"|(?P<compared>(?P<name>\w+)\s*(?P<op>>=|<=|>|<)\s*(?P<value>\d{1,9})(?![\w.]))|(?P<other>[^&|()]+))"
)
_CUDA = frozenset({"__CUDACC__", "__CUDA_ARCH__", "__NVCC__"})
_OTHER_PLATFORM = re.compile(r"(?:^|_)(?:HIP|ROCM|AMD|HCC|MUSA|SYCL)(?:CC)?(?:_|$)", re.IGNORECASE)
_OURS = re.compile(r"NVIDIA|NVCC|CUDA", re.IGNORECASE)
_OLDEST = {"__CUDA_ARCH__": 500, "CUDA_VERSION": 11000, "CUDART_VERSION": 11000, "__CUDACC_VER_MAJOR__": 11}


def compiled(condition: str) -> bool | None:
    """Whether a branch of `#if` is compiled for the device, as far as only that, other platforms, and devices and
    toolkits that are no longer there decide."""
    return _answer(condition, True)


def of_another_platform(condition: str) -> bool:
    """Whether a branch of `#if` is for another platform: CUDA's compiler takes it neither for the host nor for the
    device."""
    return _answer(condition, False) is False


def _answer(condition: str, device: bool) -> bool | None:
    parts = [match for match in _PART.finditer(condition) if match[0].strip()]
    left = list(reversed(parts))
    answer = _any(left, device)
    return None if left else answer


def _any(left: list[re.Match[str]], device: bool) -> bool | None:
    answers = [_all(left, device)]
    while left and left[-1]["sign"] == "||":
        left.pop()
        answers.append(_all(left, device))
    return True if True in answers else None if None in answers else False


def _all(left: list[re.Match[str]], device: bool) -> bool | None:
    answers = [_one(left, device)]
    while left and left[-1]["sign"] == "&&":
        left.pop()
        answers.append(_one(left, device))
    return False if False in answers else None if None in answers else True


def _one(left: list[re.Match[str]], device: bool) -> bool | None:
    """Takes one operand off the end of what is left. What is not understood stays there, so that nothing is decided."""
    if not left:
        return None
    part = left[-1]
    if part["sign"] == "!":
        left.pop()
        answer = _one(left, device)
        return None if answer is None else not answer
    if part["sign"] == "(":
        left.pop()
        answer = _any(left, device)
        if left and left[-1]["sign"] == ")":
            left.pop()
        return answer
    if part["sign"]:
        return None
    left.pop()
    if part["defined"]:
        return _defined(part["inside"] or part["bare"], device)
    return _compared(part) if part["compared"] and device else None


def _defined(name: str, device: bool) -> bool | None:
    if name in _CUDA:
        return True if device else None
    return False if _OTHER_PLATFORM.search(name) and not _OURS.search(name) else None


def _compared(part: re.Match[str]) -> bool | None:
    oldest, value, op = _OLDEST.get(part["name"]), int(part["value"]), part["op"]
    if oldest is None:
        return None
    if op in (">=", "<"):
        return op == ">=" if value <= oldest else None
    return op == ">" if value < oldest else None
