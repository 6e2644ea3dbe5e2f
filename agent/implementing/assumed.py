"""What the analysis takes a missing host stage for: the least that its declaration and its comment promise.

It launches one kernel on its stream, which reads what the parameters give it and writes what is not const; what it reads and writes on
the host goes over the same stream, and then it waits for that. Where the program relies on more, the hazard is the program's own and
is not held against a definition. Each body stands on the line of its declaration, or where the definition is to begin in another file:
lines keep their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stitchcuda.agent.implementing.parameters import is_pointer, pointee, writable
from stitchcuda.agent.implementing.placing import place_of
from stitchcuda.agent.implementing.stages import Stage

_MARK = b"\xef\xbb\xbf"


def assumed_texts(texts: Mapping[str, bytes], stages: Sequence[Stage]) -> dict[str, bytes]:
    """The files that get the body of a host stage; kernels need none. `texts` as in `reference.reference_texts`."""
    made: dict[str, bytes] = {}
    for stage in sorted((s for s in stages if not s.is_kernel), key=lambda s: s.end, reverse=True):
        text = made.get(stage.file, texts[stage.file])
        body = b" " + body_of(stage).encode()
        if stage.file == stage.path:
            at = stage.end + (len(_MARK) if text.startswith(_MARK) else 0)
            made[stage.file] = text[:at] + body + text[at:]
        else:
            place = place_of(stage, text)
            made[stage.file] = text + place.before + body + place.after
    return made


def body_of(stage: Stage) -> str:
    """The definition, on one line, with the kernel that it launches."""
    on_host = {buffer.name for buffer in stage.host}
    device = [(p.name, t) for p, t in zip(stage.parameters, stage.texts, strict=True) if is_pointer(p)]
    device = [(name, text) for name, text in device if name not in on_host]
    stream = stage.stream or "0"
    kernel, memory = f"stitchcuda_assumed_{stage.name}", f"stitchcuda_assumed_memory_{stage.name}"
    touches = " ".join(_touch(stage, name) for name, _ in device)
    parts = [f"__global__ void {kernel}({', '.join(text for _, text in device)}) {{ {touches} }}"]
    if stage.host:
        parts.append(f"extern __device__ char {memory}[1];")
    parts.append(f"{stage.signature} {{")
    copy = "cudaMemcpyAsync({}, {}, 1, {}, " + stream + ");"
    texts = dict(zip((p.name for p in stage.parameters), stage.texts, strict=True))
    kinds = [pointee(texts[b.name]) for b in stage.host if b.name in stage.outputs] or ["char"]
    # What one line copies to has one type, which is that of what is shown of the memory of the host there (element_types.py).
    parts += [copy.format(f"({kinds[0]} *){memory}", b.name, "cudaMemcpyHostToDevice") for b in stage.host]
    parts.append(f"{kernel}<<<1, 1, 0, {stream}>>>({', '.join(name for name, _ in device)});")
    parts += [copy.format(b.name, memory, "cudaMemcpyDeviceToHost") for b in stage.host if b.name in stage.outputs]
    parts += [f"cudaStreamSynchronize({stream});"] if stage.host else []
    return " ".join([*parts, "}"])


def _touch(stage: Stage, name: str) -> str:
    """How the kernel reads what a pointer leads to, and writes it where it may."""
    (parameter,) = (p for p in stage.parameters if p.name == name)
    at = f"((char *){name})[threadIdx.x]"
    return f"char v_{name} = {at}; {at} = v_{name};" if writable(parameter) else f"char v_{name} = {at};"
