"""The transforms that a contract can forbid are at least those that there are, and those that users can choose are exactly those."""

from stitchcuda.agent.transform_names import IDS as CHOSEN
from stitchcuda.agent.transform_names import NAMED
from stitchcuda.agent.transforms import DECLARED, TRANSFORMS
from stitchcuda.analysis.contract.intent.restrictions import IDS
from stitchcuda.analysis.program.ir import ApiKind


def test_every_transform_can_be_forbidden() -> None:
    ids = {transform.ID for transform in TRANSFORMS}
    assert ids <= set(IDS)
    assert ids == set(DECLARED)


def test_every_transform_can_be_chosen() -> None:
    assert tuple(transform.ID for transform in TRANSFORMS) == CHOSEN, (
        "a new one needs a row in agent/transform_names.py"
    )
    assert {kind for named in NAMED for kind in named.needs} <= set(ApiKind)
    assert all(named.lacking for named in NAMED if named.needs)
