"""How much work an entry is worth: counted in steps and ops, never by a clock, and growing with the text that is executed.

Most entries stay far below. One that does not is followed more coarsely as it goes on: what an earlier round of a loop
showed is not shown again, then fewer groups of paths are kept apart. Far above, it is cut, which is reported. The text
counted is that of the functions that were entered, so that what an entry is worth changes only when one of them does.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOOR_STEPS = 4_000
STEPS_PER_BYTE = 0.2  # 95 of 100 entries of public programs stay below 0.28, half of them below 0.07
FLOOR_OPS = 200
OPS_PER_BYTE = 0.012  # 90 of 100 stay below 0.018
SHOWN = 1.0  # strain above which inner loops are not shown again
CUT = 3.0  # strain at which an entry is cut: none of 1731 findings in the 140 most strained public files is found only later
CUT_WITHOUT_WORK = 0.5  # the same for an entry from which no device work can be reached
_LOOK_STEPS = 1_000  # between two looks at whether to go on: some tens of milliseconds


@dataclass(slots=True)
class Effort:
    """What an entry took so far, and what its text is worth."""

    bound: int  # steps that are never exceeded
    steps: int = 0  # evaluated nodes
    text: int = 0  # bytes of the functions that were entered
    most: int = 0  # steps after which it is cut
    look: int = 0  # steps after which it is asked whether to go on
    cut: float = CUT

    def grow(self, text: int) -> None:
        """A function is entered for the first time."""
        self.text += text
        self.most = min(self.bound, int(self.cut * (FLOOR_STEPS + STEPS_PER_BYTE * self.text)))
        self.goes_on()

    def goes_on(self) -> None:
        """Until the next look."""
        self.look = min(self.most, self.steps + _LOOK_STEPS)

    def strain(self, ops: int) -> float:
        """How much was taken of what the text is worth: 1 and above is too much."""
        steps = self.steps / (FLOOR_STEPS + STEPS_PER_BYTE * self.text)
        return max(steps, ops / (FLOOR_OPS + OPS_PER_BYTE * self.text))
