"""The transforms that a contract can forbid are at least those that there are."""

from stitchcuda.agent.transforms import DECLARED, TRANSFORMS
from stitchcuda.analysis.contract.intent.restrictions import IDS


def test_every_transform_can_be_forbidden() -> None:
    ids = {transform.ID for transform in TRANSFORMS}
    assert ids <= set(IDS)
    assert ids == set(DECLARED)
