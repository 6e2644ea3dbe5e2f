"""The one thing to put right first, from the gates of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.gpu_validate.verdict import REQUIRED, GateResult, GateState, Primary, VerdictState, decide

_WHY = {
    "G0": "a version that does not parse, or has a new hazard, is wrong whatever a run shows",
    "G1": "an order of conflicting accesses that the original has and the version lacks lets results change from run to run",
    "G2": "a version that does not build cannot be run",
    "G3": "the version must show what the original shows",
    "G4": "a memory error or race may stay without effect in one run and not in the next",
    "G6": "a change that brings no time is not worth its risk",
}
_FAILED = {
    "G0": "remove the new hazard, or undo the edit at this line",
    "G1": "order the two accesses again (same stream, event, or a wait), or undo the edit",
    "G2": "correct the first error of the compiler",
    "G3": "find the first result that differs; if it is a measured time or an address, name it in [observe] ignore",
    "G4": "correct the access that is reported",
    "G6": "undo the edit, or look at what else became slower",
}
_OPEN = {
    "G0": "say how the program is built (compile database or [build]), so that all of it can be read",
    "G1": "make the unknown part visible to the analysis, or keep the edit out of it",
    "G2": "install a CUDA compiler (stitchcuda doctor), or give [build] command",
    "G3": "print a checksum of the results, or write them to a file",
    "G4": "install compute-sanitizer (stitchcuda doctor)",
    "G6": "run on a quiet machine, give more runs, or keep the original: there may be nothing to gain",
}
_PRECISION = (
    "results within a tolerance for the inputs at hand do not make fewer bits right",
    "compute as precisely as the original, or let the contract name the lower precision",
)
_OTHER_LAUNCHES = (
    "launches that stand for others must leave in memory what these left there for others, and touch nothing else"
)
_OTHER_LAUNCHES_FIX = {
    GateState.FAILED: "write it in the new launches, or keep the launch that wrote it; keep the stream and what stands between",
    GateState.UNTESTED: "keep the host's code as it is but for the launches, in one run of statements on one stream; leave the rest out",
}
_WRITTEN = "what is written in place of a declaration does what that says, and its callers may rely on all of it"
_WRITTEN_FIX = {
    GateState.FAILED: "keep the definition to what its declaration and the comment above it say",
    GateState.UNTESTED: "use only calls and addresses that the source shows",
}
_NO_GPU = "run it on a machine with an NVIDIA GPU (stitchcuda doctor says what is here)"


def primary_of(gates: Sequence[GateResult]) -> Primary | None:
    """The first failed gate's; without one, that of the first gate that is needed and did not pass. None when accepted."""
    state = decide(gates)
    if state is VerdictState.ACCEPTED:
        return None
    if state is VerdictState.REJECTED:
        gate = next(g for g in gates if g.state is GateState.FAILED)
        fixes = _FAILED
    else:
        good = (GateState.PASSED, GateState.PROVED)
        found = next((g for g in gates if g.gate in REQUIRED and g.state not in good), None)
        if found is None:
            return None
        gate, fixes = found, _OPEN
    new = [f for f in gate.findings if not f.baseline]
    placed = next((f for f in new if f.path), new[0] if new else None)
    issue = gate.reason or (placed.what if placed else f"{gate.gate} is {gate.state.value}")
    where = (placed.path, placed.line) if placed else ("", 0)
    fix = _NO_GPU if gate.reason.startswith("there is no GPU") else fixes.get(gate.gate, "")
    why = _WHY.get(gate.gate, "")
    if gate.gate == "G0" and issue.startswith("precision is lowered"):
        why, fix = _PRECISION
    if gate.gate == "G1" and gate.evidence.get("declared", {}).get("device") == "any":
        why, fix = _OTHER_LAUNCHES, _OTHER_LAUNCHES_FIX.get(gate.state, fix)
    if gate.gate == "G1" and gate.evidence.get("stage"):
        why, fix = _WRITTEN, _WRITTEN_FIX.get(gate.state, fix)
    return Primary(issue, why, fix, *where)
