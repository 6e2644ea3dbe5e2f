"""G1: is the order of conflicting accesses kept, and everything that must be conserved? The proof's answer as a gate."""

from __future__ import annotations

from stitchcuda.analysis.proof.model import Proof, ProofFinding, ProofState
from stitchcuda.gpu_validate.verdict import OF_ORIGINAL, GateFinding, GateResult, GateState

_STATES = {
    ProofState.PROVED: GateState.PROVED,
    ProofState.KEPT: GateState.PASSED,  # the order is, and what changed kernels compute is for a run to show
    ProofState.FAILED: GateState.FAILED,
    ProofState.UNTESTED: GateState.UNTESTED,
}
_MOST_TOLD = 20


def g1(proof: Proof) -> GateResult:
    """The gate's result; findings of the original's text say so."""
    evidence = {
        "pairs": proof.pairs,
        "quantities": [
            {"name": q.name, "before": q.before, "after": q.after, "allowed": q.allowed} for q in proof.quantities
        ],
        "declared": {
            "transforms": list(proof.declared.transforms),
            "waits": proof.declared.waits.value,
            "copies": proof.declared.copies.value,
            "allocations": proof.declared.allocations.value,
            "launches": proof.declared.launches.value,
            "device": proof.declared.device.value,
        },
        **proof.evidence,
    }
    return GateResult(
        "G1", _STATES[proof.state], proof.reason, evidence, tuple(map(_told, proof.findings[:_MOST_TOLD]))
    )


def _told(finding: ProofFinding) -> GateFinding:
    what = f"{finding.what}{OF_ORIGINAL}" if finding.original and finding.line else finding.what
    return GateFinding(what, finding.path, finding.line)
