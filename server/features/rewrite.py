"""Step-by-step rewrites: *Stitch* with one transform, in the function under the cursor (agent/transform_names.py).

They are offered from what is known of the function already, since a list of actions is asked for at every move of the cursor: the
program is looked at when one is chosen. That one found nothing is remembered until a text of the program changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcInvalidParams
from stitchcuda.agent.transform_names import BY_ID, IDS, NAMED, Named
from stitchcuda.server.convert import View, from_range
from stitchcuda.server.engine.facts import FunctionFact
from stitchcuda.server.features import program_jobs, stitch
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

KIND = "refactor.rewrite.stitchcuda"
KINDS = tuple(f"{KIND}.{name}" for name in IDS)
_DEVICE_WORK = frozenset({"launch", "copy", "memset", "graph_launch", "library_call", "prefetch", "host_func"})

_Key = tuple[str, str, str]  # program, transform, function
_Texts = frozenset[tuple[str, int]]  # open files of a program with their revisions


@dataclass
class Rewrites:
    """Why a rewrite found nothing, with the texts for which that holds."""

    nothing: dict[_Key, tuple[_Texts, str]] = field(default_factory=dict)


async def rewrite(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri, transform, function = ""]` -> `{"job": id}`, at once; what comes of it is shown as for *Stitch*."""
    uri, transform, function = (*arguments, *("", "", "")[len(arguments) :])[:3]
    if not isinstance(transform, str) or not isinstance(function, str) or function.startswith("-"):
        raise JsonRpcInvalidParams(message="stitchcuda.rewrite takes a URI, a rewrite and the name of a function")
    named = BY_ID.get(transform)
    if named is None:
        raise JsonRpcInvalidParams(message=f"there is no rewrite {transform!r}; the rewrites are {', '.join(IDS)}")
    reading = "a rewrite reads the files as they are saved"
    program = program_jobs.saved_program(ls, "stitchcuda.rewrite", uri, reading)
    within = [f"--within={function}"] if function else []
    words = program_jobs.stitch_words(ls, program, f"--only={transform}", *within)
    title = f"{named.title} in {function or program.name}"
    return program_jobs.start(ls, title, program, lambda job: _work(ls, job, program, words, (named, function)))


async def _work(
    ls: StitchServer, job: Job, program: Path, words: list[str], asked: tuple[Named, str]
) -> dict[str, Any]:
    named, function = asked
    texts = _texts(ls, program)
    answer = await program_jobs.run(ls, job, words)
    if answer.value is None:
        program_jobs.show(ls, f"stitchcuda: {program.name}: {answer.message}", t.MessageType.Error)
        return {"outcome": "failed", "reason": answer.message}
    told = await stitch.offer(ls, program, answer.value, job.title)
    if told["outcome"] == "no_safe_change" and not answer.value.get("units"):
        ls.rewrites.nothing[str(program), named.id, function] = (texts, told["reason"])
    return told


def forget(ls: StitchServer) -> None:
    """Files may have changed on the disk."""
    ls.rewrites.nothing.clear()


def actions(ls: StitchServer, view: View, where: t.Range, preview: bool) -> list[tuple[t.CodeAction, str]]:
    """The rewrites of the host function at `where`, each with the reason why it is known to find nothing, "" when it is not."""
    function = _function_at(view, where)
    if function is None or view.document.path.endswith(".py"):  # they change CUDA, C and C++ only
        return []
    document, offered = view.document, []
    program = program_jobs.program_of(ls, document)
    for named in NAMED:
        title = f"{named.title} in {function.name}{' (preview, not run)' if preview else ''}"
        arguments = [document.uri, named.id, function.name]
        command = t.Command(title=title, command="stitchcuda.rewrite", arguments=arguments)
        action = t.CodeAction(title=title, kind=f"{KIND}.{named.id}", command=command)
        offered.append((action, _why_nothing(ls, program, named, function)))
    return offered


def _function_at(view: View, where: t.Range) -> FunctionFact | None:
    """The innermost host function with device work around the start of a range."""
    at, _ = from_range(view.document, where, view.encoding)
    around = view.touching(view.facts.functions, at, at)
    found = [(span[1] - span[0], f) for f, span in around if not f.kernel and f.kinds & _DEVICE_WORK]
    return min(found, key=lambda f: f[0])[1] if found else None


def _why_nothing(ls: StitchServer, program: Path, named: Named, function: FunctionFact) -> str:
    if named.needs and not named.needs & function.kinds:
        return named.lacking
    texts, reason = ls.rewrites.nothing.get((str(program), named.id, function.name), (None, ""))
    return reason if texts is not None and texts == _texts(ls, program) else ""


def _texts(ls: StitchServer, program: Path) -> _Texts:
    return frozenset(
        (d.path, d.revision) for d in ls.documents.all() if d.path == str(program) or program in Path(d.path).parents
    )
