"""Part of G0: does the version compute in a lower precision than the original, without the contract naming it?

A tolerance says how far results may lie apart, not that the program may compute with fewer bits: half the bits often pass it for
the inputs at hand. So types, intrinsics, instructions, library modes and flags of lower precision that the original lacks fail,
whatever a run would show. They are looked for in the text, comments left out, and in what the analysis sees once macros are
expanded. Of machine code nothing is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from stitchcuda.analysis.contract.types import Contract
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Call,
    Cast,
    Construct,
    Declare,
    Deref,
    Function,
    Member,
    Name,
    New,
    TypeRef,
    walk,
)
from stitchcuda.analysis.syntax.comments import COMMENT_OR_LITERAL
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState
from stitchcuda.gpu_validate.version import Version

LOWER = ("tf32", "fp16", "bf16", "fp8", "int8")
FAST = "approximate functions"
SINGLE = "fp32"
_TOLD = 12
_WORDS = {
    "fp16": r"half2?|__half\w*|__(float|double|int|uint|short|ushort|ll|ull)2half\w*|__h(add|sub|mul|fma|div|neg|abs|max|min)2?\w*"
    r"|h(exp|exp2|log|log2|sin|cos|sqrt|rsqrt|rcp|tanh)2?|__float22half2_rn|float16(_t)?|_Float16|__fp16|half_t|half_float"
    r"|cuda_fp16\w*|CUDA_[RC]_16F|CUBLAS_COMPUTE_(16F|32F_FAST_16F)\w*|cublas[HG]?[Hh]gemm\w*|CUDNN_DATA_HALF\w*|at_half|kHalf",
    "bf16": r"(__)?nv_bfloat16\w*|__bfloat16\w*|\w*2bfloat16\w*|bfloat16(_t)?|cuda_bf16\w*|CUDA_[RC]_16BF"
    r"|CUBLAS_COMPUTE_32F_FAST_16BF|CUDNN_DATA_BFLOAT16|kBFloat16",
    "fp8": r"__nv_(fp[468]|cvt)\w*|cuda_fp[468]\w*|CUDA_R_(8F|4F)\w*|(float|__nv_fp8)_?e[45]m[23]\w*|CUDNN_DATA_FP8\w*|float8_\w+",
    "int8": r"__dp[24]a\w*|CUDA_[RC]_8[IU]|CUBLAS_COMPUTE_32I\w*|CUDNN_DATA_INT8\w*",
    "tf32": r"__float_to_tf32|tf32|tfloat32_t|CUBLAS_(TF32_)?TENSOR_OP_MATH\w*|CUBLAS_COMPUTE_32F_FAST_TF32|CUDNN_TENSOR_OP_MATH\w*"
    r"|CUDNN_FMA_ALLOW\w*|NVIDIA_TF32_OVERRIDE|allow_tf32|set_float32_matmul_precision",
    FAST: r"__fdividef|__(exp|exp10|log|log2|log10|sin|cos|tan|tanh|pow)f|__sincosf|__use_fast_math__",
}
_KINDS = {kind: re.compile(rf"^({pattern})$") for kind, pattern in _WORDS.items()}
# Instructions in strings of inline assembly.
_INSTRUCTIONS = {
    "fp16": re.compile(r"\.f16(x2)?\b"),
    "bf16": re.compile(r"\.bf16(x2)?\b"),
    "fp8": re.compile(r"\.e[45]m[23](x2)?\b"),
    "tf32": re.compile(r"\.tf32\b|NVIDIA_TF32_OVERRIDE"),
    FAST: re.compile(r"\.approx\b|\.ftz\b|fast[-_]math|Ofast"),
}
_FLAGS = re.compile(
    rb"(?<![\w-])-{1,2}(use_fast_math|ftz[= ]true|prec-(?:div|sqrt)[= ]false|ffast-math|Ofast|funsafe-math-optimizations|"
    rb"ffinite-math-only|fassociative-math|freciprocal-math|ffp-model[= ]fast|fp-model[= ]fast)|CUDA_FAST_MATH"
)
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\S')
_SPLICE = re.compile(r"\\\r?\n")
_ALSO_VARIABLES = frozenset({"half", "half2"})  # somebody's variable, more often than not


@dataclass(frozen=True)
class Use:
    """A word or instruction of lower precision; `function` is "" outside of functions."""

    kind: str
    word: str
    path: str
    line: int
    function: str = ""


def with_precision(
    result: GateResult, before: Analysis, after: Analysis, versions: tuple[Version, Version], contract: Contract
) -> GateResult:
    """The result of G0, failed when the version computes in a lower precision."""
    new = uses(after, other_than=before)
    old = uses(before) if new else []
    fresh = [u for u in _new(before, old, new) if not _named(u.kind, contract)]
    fresh += [u for u in (*_flags(*versions, after), *_narrowed(before, after)) if not _named(u.kind, contract)]
    known = {u.kind for u in old}
    more = [u for u in new if u.kind in known and u.word not in {o.word for o in old} and u not in fresh]
    allowed = [kind for kind in (*LOWER, FAST, SINGLE) if _named(kind, contract)]
    told = [GateFinding(f"{_said(u)}, as elsewhere in the original", u.path, u.line) for u in more]
    if not fresh:
        return replace(result, findings=(*result.findings, *told[:_TOLD])) if told else result
    listed = [{"precision": u.kind, "what": u.word, "path": u.path, "line": u.line} for u in fresh[:_TOLD]]
    evidence = {**result.evidence, "lower_precision": listed, "precision_allowed": allowed}
    findings = [GateFinding(f"{_said(u)}, which the original lacks", u.path, u.line) for u in fresh[:_TOLD]]
    if result.state is GateState.FAILED:
        return replace(result, evidence=evidence, findings=(*result.findings, *findings))
    named = "forbids it" if fresh[0].kind in contract.precision_forbidden else "does not name it"
    reason = f"precision is lowered: {findings[0].what}, and the contract {named}"
    return GateResult("G0", GateState.FAILED, reason, evidence, (*findings, *result.findings))


def _said(use: Use) -> str:
    return f"`{use.word}` ({use.kind})"


def _named(kind: str, contract: Contract) -> bool:
    """Whether the contract lets the version compute so. Approximate functions are nearer than any of the lower precisions."""
    allowed = set(contract.precision) - set(contract.precision_forbidden)
    if kind == FAST:
        return bool(allowed & set(LOWER))
    if kind == SINGLE:
        return bool(allowed & {SINGLE, *LOWER})
    return kind in allowed


def _new(before: Analysis, old: list[Use], new: list[Use]) -> Iterator[Use]:
    """Uses of a precision that the original lacks, in the whole or in the function of the same name."""
    kinds = {u.kind for u in old}
    within = {(u.function, u.kind) for u in old}
    functions = {f.name for f in before.program.functions.values()}
    seen: set[tuple[str, str, str]] = set()
    for use in new:
        inside = use.function in functions and (use.function, use.kind) not in within
        if (use.kind not in kinds or inside) and (use.kind, use.word, use.path) not in seen:
            seen.add((use.kind, use.word, use.path))
            yield use


# ------------------------------------------------------------------------------------------------------------- the text


def uses(analysis: Analysis, other_than: Analysis | None = None) -> list[Use]:
    """The uses of lower precision in the sources, in the text and with macros expanded; only those in files and functions that
    are not as in another analysis."""
    found: dict[tuple[str, str, int], Use] = {}
    by_path: dict[str, list[Function]] = {}
    for f in analysis.program.functions.values():
        if f.body is not None:
            by_path.setdefault(f.path, []).append(f)
    for path, source in sorted(analysis.sources.items()):
        functions = sorted(by_path.get(path, ()), key=lambda f: f.base)
        same = other_than is not None and other_than.sources.get(path) == source
        for kind, word, offset in () if same else _in_text(source.decode("latin-1")):
            inside = next((f.name for f in functions if f.base <= offset < f.base + f.span[1]), "")
            use = Use(kind, word, path, source.count(b"\n", 0, offset) + 1, inside)
            found.setdefault((kind, word, use.line), use)
        for f in functions:
            known = other_than.program.functions.get(f.uid) if other_than is not None else None
            if known is not None and f.digest and known.digest == f.digest:
                continue  # the macros that it uses are the same, too
            for kind, word, start in _expanded(f):
                use = Use(kind, word, path, source.count(b"\n", 0, f.base + start) + 1, f.name)
                found.setdefault((kind, word, use.line), use)
    return list(found.values())


def _in_text(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, word and offset. A name that is cut by a line's end is one name; comments do not count."""
    text = COMMENT_OR_LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else m[0], text)
    places: list[int] = []
    joined: list[str] = []
    at = 0
    for splice in _SPLICE.finditer(text):
        joined.append(text[at : splice.start()])
        places += range(at, splice.start())
        at = splice.end()
    joined.append(text[at:])
    places += range(at, len(text) + 1)
    plain = "".join(joined)
    tokens = [(m[0], m.start()) for m in _TOKEN.finditer(plain)]
    for k, (token, start) in enumerate(tokens):
        if token.startswith('"'):
            for kind, pattern in _INSTRUCTIONS.items():
                for found in pattern.finditer(token):
                    yield kind, found[0], places[start]
            continue
        if token == "##" or (token == "#" and tokens[k + 1 : k + 2] and tokens[k + 1][0] == "#"):
            pasted = tokens[k - 1][0] + (tokens[k + 2][0] if k + 2 < len(tokens) else "")
            yield from ((kind, pasted, places[start]) for kind in _kinds(pasted))
        if token in _ALSO_VARIABLES and not _is_type(tokens, k):
            continue
        yield from ((kind, token, places[start]) for kind in _kinds(token))


def _kinds(word: str) -> Iterator[str]:
    return (kind for kind, pattern in _KINDS.items() if pattern.match(word))


def _is_type(tokens: list[tuple[str, int]], k: int) -> bool:
    """In front of a name, alone between angle brackets, or under another name. All else is told by what the analysis reads."""
    before, after = (tokens[n][0] if 0 <= n < len(tokens) else "" for n in (k - 1, k + 1))
    if after[:1].isalpha() or after[:1] == "_":
        return True
    if before == "<" and after == ">":
        return True
    named = {tokens[n][0] for n in (k - 2, k - 3) if n >= 0}
    return "define" in named or (before == "=" and "using" in named) or (before == "(" and "sizeof" in named)


def _expanded(function: Function) -> Iterator[tuple[str, str, int]]:
    """What calls and types of a function mean once macros are expanded."""
    assert function.body is not None
    types = [(p.type, 0) for p in function.params] + [(function.returns, 0)]
    for node in walk(function.body):
        if isinstance(node, Call) and isinstance(node.callee, Name):
            word = node.callee.name.rsplit("::", 1)[-1]
            yield from ((kind, word, node.span[0]) for kind in _kinds(word))
        if isinstance(node, (Name, Member)):
            types += [(given, node.span[0]) for given in node.template if isinstance(given, TypeRef)]
        elif isinstance(node, (Declare, Construct, New)) or (
            isinstance(node, Cast) and not isinstance(node.operand, (Deref, AddressOf))  # `(half) * x` may be a product
        ):
            types.append((node.type, node.span[0]))
    for type_, start in types:
        for name in _type_names(type_):
            yield from ((kind, name, start) for kind in _kinds(name))


def _type_names(type_: TypeRef) -> Iterator[str]:
    yield type_.name.rsplit("::", 1)[-1]
    for inner in type_.args:
        yield from _type_names(inner)


# ------------------------------------------------------------------------------------------- flags, and double to float


def _flags(before: Version, after: Version, analysis: Analysis) -> Iterator[Use]:
    """Flags in files that the build reads and the analysis does not."""
    for path in sorted({*before.texts, *after.texts}):
        if path in analysis.sources or path.endswith("stitchcuda.toml"):
            continue
        old, new = _read(before, path), _read(after, path)
        had = {m[0] for m in _FLAGS.finditer(old)}
        for found in _FLAGS.finditer(new):
            if found[0] not in had:
                yield Use(FAST, found[0].decode(), path, new.count(b"\n", 0, found.start()) + 1)


def _read(version: Version, path: str) -> bytes:
    try:
        return version.read(path)
    except OSError:
        return b""


def _narrowed(before: Analysis, after: Analysis) -> Iterator[Use]:
    """Device functions in which `float` stands where `double` stood."""
    old, new = _floats(before), _floats(after)
    for name, (path, line, counts) in sorted(new.items()):
        had = old.get(name)
        if had is None:
            continue
        was = had[2]
        if counts["double"] < was["double"] and counts["float"] > was["float"]:
            yield Use(SINGLE, "float", path, line, name)


def _floats(analysis: Analysis) -> Mapping[str, tuple[str, int, Counter[str]]]:
    found: dict[str, tuple[str, int, Counter[str]]] = {}
    for f in analysis.program.functions.values():
        if f.space not in ("global", "device") or f.body is None:
            continue
        source = analysis.sources[f.path]
        text = COMMENT_OR_LITERAL.sub(" ", source[f.base : f.base + f.span[1]].decode("latin-1"))
        counts = Counter(re.findall(r"\b(?:double|float)\b", text))
        path, line, known = found.get(f.name, (f.path, source.count(b"\n", 0, f.base) + 1, Counter()))
        found[f.name] = (path, line, known + counts)
    return found
