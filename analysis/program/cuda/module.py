"""Lowering a file: the outline, then each function, reusing what an unchanged function was lowered to before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stitchcuda.analysis.program import api
from stitchcuda.analysis.program.cuda import dispatch, literals
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context, Environment, Tally
from stitchcuda.analysis.program.cuda.declarations import FunctionItem, Outline, complete, outline
from stitchcuda.analysis.program.cuda.functions import FunctionLowering, Lowered, LoweringCache, Shell, shell_of
from stitchcuda.analysis.program.cuda.macro_bodies import MacroDef, collect_macros, template
from stitchcuda.analysis.program.ir import (
    Const,
    Expr,
    Function,
    Module,
    Problem,
    TypeRef,
)
from stitchcuda.analysis.syntax.parse import Syntax, parse_cuda

dispatch.install()


def lower_module(
    path: str,
    text: bytes,
    *,
    macros: Mapping[str, MacroDef] | None = None,
    own: Mapping[str, MacroDef] | None = None,
    cache: LoweringCache | None = None,
) -> Module:
    """Lower one file. `macros` are definitions seen in headers; the file's own win (`own`, when they are collected
    already). Never raises on broken code: what could not be understood is `Opaque` and told in `Module.problems`."""
    return ModuleLowering(path, text, macros=macros, own=own, cache=cache).whole()


def under(module: Module, path: str) -> Module:
    """What a file under another path is lowered to that has the same text and sees the same macros. Function bodies are the same objects."""
    before, language = len(module.path), _language(path)
    return replace(
        module,
        path=path,
        language=language,
        functions=tuple(replace(f, uid=path + f.uid[before:], path=path, language=language) for f in module.functions),
        records=tuple(
            replace(r, path=path, methods=tuple(path + uid[before:] for uid in r.methods)) for r in module.records
        ),
        problems=tuple(replace(p, path=path) for p in module.problems),
    )


class ModuleLowering:
    """A file whose functions are found and named, and lowered when they are asked for. The arguments are those of `lower_module`."""

    def __init__(
        self,
        path: str,
        text: bytes,
        *,
        macros: Mapping[str, MacroDef] | None = None,
        own: Mapping[str, MacroDef] | None = None,
        cache: LoweringCache | None = None,
    ) -> None:
        self.path = path
        self._syntax = cache.parse(path, text) if cache is not None else parse_cuda(text)
        self._own = own if own is not None else collect_macros(text)
        table = {**macros, **self._own} if macros else self._own
        scratch = Context(self._syntax.text, 0, Environment(table), Tally())
        self._found = outline(scratch, self._syntax.root)
        records = frozenset(name.rpartition("::")[2] for _, _, name in self._found.record_nodes)
        self._shells = [shell_of(scratch, item) for item in self._found.functions]
        # Only names that could be taken for CUDA's matter: a new helper function must not change what others depend on.
        functions = frozenset(
            n for n, _, _, _ in self._shells if api.looks_like_cuda(n) or api.lookup(n, 1) is not None
        )
        environment = Environment(table, functions, records)
        self._cx = Context(self._syntax.text, 0, environment, Tally())
        complete(self._cx, self._found)
        self._lowered = FunctionLowering(
            path, self._syntax, environment, cache if cache is not None else LoweringCache()
        )

    @property
    def functions(self) -> list[tuple[FunctionItem, Shell]]:
        """All definitions and declarations of functions in the file, in order."""
        return list(zip(self._found.functions, self._shells, strict=True))

    def whole(self) -> Module:
        """The file, lowered."""
        made = self.part(range(len(self._shells)))
        self._lowered.done()
        return made

    def part(self, chosen: Sequence[int]) -> Module:
        """The file with only some of its `functions`, by number in ascending order. A function is the same as in the whole file when all
        those of its name are chosen."""
        found = self._found
        items = [found.functions[k] for k in chosen]
        results = [self._lowered.function(found.functions[k], self._shells[k]) for k in chosen]
        made = _place(self.path, found, items, results)
        by_record: dict[str, list[str]] = {}
        for item, function in zip(items, made, strict=True):
            if item.record:
                by_record.setdefault(item.record, []).append(function.uid)
        constants, macro_aliases = _macro_constants(self._cx, self._own)
        path = self.path
        return Module(
            path=path,
            language=_language(path),
            functions=tuple(made),
            records=(
                *(replace(r, path=path, methods=tuple(by_record.get(r.name, ()))) for r in found.records),
                *(
                    replace(r, path=path, span=(f.base + r.span[0], f.base + r.span[1]))
                    for f, low in zip(made, results, strict=True)
                    for r in low.records
                ),
            ),
            globals=tuple(found.globals),
            aliases=(*found.aliases, *(a for low in results for a in low.aliases), *macro_aliases),
            constants=(*found.constants, *(c for low in results for c in low.constants), *constants),
            includes=tuple(found.includes),
            problems=tuple(_problems(path, self._syntax, made)),
        )


_DEFAULTED = g.kind("default_method_clause")


def _language(path: str) -> str:
    if path.endswith((".cu", ".cuh")):
        return "cuda"
    return "c" if path.endswith(".c") else "c++"


def _place(path: str, found: Outline, items: list[FunctionItem], results: list[Lowered]) -> list[Function]:
    """Functions with their names, positions and unique ids."""
    language = _language(path)
    seen: dict[str, int] = {}
    made: list[Function] = []
    for item, low in zip(items, results, strict=True):
        qualified = "::".join([*item.scope, *([low.scope] if low.scope else []), low.name])
        record = item.record
        if not record and low.scope:
            owner = "::".join([*item.scope, low.scope])
            record = "" if owner in found.namespaces or low.scope in found.namespaces else owner
        count = seen[qualified] = seen.get(qualified, 0) + 1
        made.append(
            Function(
                uid=f"{path}::{qualified}" + (f"#{count}" if count > 1 else ""),
                name=low.name,
                qualified=qualified,
                path=path,
                base=item.start,
                span=(0, item.end - item.start),
                name_span=low.name_span,
                params=low.params,
                returns=low.returns,
                body=low.body,
                space=low.space,
                record=record,
                static=low.static or item.hidden,
                template=item.template,
                initializers=low.initializers,
                language=language,
                has_error=low.has_error,
                digest=low.digest,
                launch_bounds=low.launch_bounds,
                host_cuda_calls=low.cuda_calls,
                mentions=low.mentions,
                defaulted=low.body is None and any(child.kind_id == _DEFAULTED for child in item.node.children),
            )
        )
    return made


_TYPE_BODY = re.compile(
    r"(?:const\s+)?(?:unsigned\s+|signed\s+)*(?:float|double|int|long|long long|short|char|bool|half|__half|__nv_bfloat16|size_t)$"
)


def _macro_constants(
    cx: Context, own: Mapping[str, MacroDef]
) -> tuple[list[tuple[str, Expr]], list[tuple[str, TypeRef]]]:
    constants: list[tuple[str, Expr]] = []
    aliases: list[tuple[str, TypeRef]] = []
    for macro in own.values():
        if macro.params is not None or not macro.body or macro.acts:
            continue
        at = (macro.offset, macro.offset + len(macro.name))
        number = literals.number(macro.body) if macro.body[0].isdecimal() else None
        if number is not None:
            constants.append((macro.name, Const(at, number)))
        elif _TYPE_BODY.match(macro.body):
            aliases.append((macro.name, TypeRef(macro.body)))
        else:
            body = template(macro).body
            if body is not None and body.is_value:
                inner = Context(body.text, 0, cx.env, cx.tally, fixed=at, active=frozenset({macro.name}))
                constants.append((macro.name, inner.expr(body.nodes[0])))
    return constants, aliases


_MAX_PROBLEMS = 20
_LARGE = 200  # bytes of unparsed text outside functions worth telling about even without CUDA words in it


def _problems(path: str, syntax: Syntax, functions: list[Function]) -> list[Problem]:
    problems: list[Problem] = []
    if not syntax.error_bytes:
        return problems
    for function in functions:
        if function.has_error and function.body is not None:
            problems.append(
                Problem(
                    path,
                    _line(syntax, function.base),
                    f"part of {function.name} could not be parsed",
                    "what it does there is unknown to the analysis",
                )
            )
    stack = [syntax.root]
    while stack and len(problems) < _MAX_PROBLEMS:
        node = stack.pop()
        if node.is_error:
            text = syntax.text[node.start_byte : node.end_byte]
            if len(text) >= _LARGE or b"<<<" in text or b"cuda" in text:
                problems.append(
                    Problem(
                        path,
                        _line(syntax, node.start_byte),
                        "declarations here could not be parsed",
                        "functions among them may be missing from the analysis",
                    )
                )
        elif node.has_error and node.kind_id != g.FUNCTION_DEFINITION:
            stack.extend(reversed(node.children))
    return problems


def _line(syntax: Syntax, offset: int) -> int:
    return syntax.text.count(b"\n", 0, offset) + 1
