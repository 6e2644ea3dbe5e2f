"""How much work an entry is worth."""

from __future__ import annotations

from itertools import count

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.recorder import Cancelled
from stitchcuda.analysis.order.timeline import Timeline

CHOICES = " ".join(f"char* p{k} = n > {k} ? argv[0] : name; if (n > {k}) p{k} = other;" for k in range(4))
SUMS = " ".join(f"s = s * {k} + n * s - {k};" for k in range(250))
PROGRAM = f"""#include <cuda_runtime.h>
__global__ void k(float* p, int n) {{ p[threadIdx.x] = n; }}
void run(float* p) {{ k<<<1, 32>>>(p, 1); }}
int main(int argc, char** argv) {{ int n = argc, s = 0; char name[8], other[8]; {CHOICES} {SUMS} WORK return s; }}
"""


def of_main(work: str) -> Timeline:
    index = Index(strict=True, findings=False)
    index.put("a.cu", PROGRAM.replace("WORK", work).encode())
    (found,) = (t for t in index.analyse().timelines if t.entry.endswith("::main"))
    return found


def test_an_entry_from_which_no_device_work_is_reached_is_not_followed_for_long() -> None:
    assert [cut.what for cut in of_main("").cuts] == ["no device work is reached from here: not followed further"]


def test_device_work_is_reached_behind_the_same_code() -> None:
    found = of_main("run(0);")
    assert {op.kernel for op in found.ops} == {"k"}
    assert found.cuts == ()


def test_numbers_that_are_made_of_themselves_again_and_again_stay_small() -> None:
    hashed = "int h = argc; " + "h = h * 31 + h * n; " * 100
    main = f"int main(int argc, char** argv) {{ int n = argc; {hashed} if (h > 3) run(0); }}"
    index = Index(strict=True, findings=False)
    index.put("a.cu", (PROGRAM.split("int main")[0] + main).encode())
    (found,) = index.analyse().timelines
    assert [op.kernel for op in found.ops] == ["k"]


def test_nobody_waits_for_the_end_of_an_entry_that_was_cancelled() -> None:
    """Asked a few times on the way through one entry; what it gave so far is nowhere."""
    index = Index(strict=True, findings=False)
    index.put("a.cu", PROGRAM.replace("WORK", "run(0);").encode())
    whole = index.analyse()
    (main,) = (t.entry for t in whole.timelines if t.entry.endswith("::main"))
    asked = count()
    assert execute_entry(whole.program, main, cancelled=lambda: next(asked) < 0).ops
    assert 2 <= next(asked) <= 50
    asked = count()
    with pytest.raises(Cancelled):
        execute_entry(whole.program, main, cancelled=lambda: next(asked) >= 1)
    assert next(asked) == 2

    again, asked = Index(strict=True, findings=False), count()
    again.put("a.cu", PROGRAM.replace("WORK", "run(0);").encode())
    cancelled = again.analyse(lambda: next(asked) >= 5)
    assert not cancelled.complete and not cancelled.problems and not cancelled.timelines
    assert again.analyse().timelines == whole.timelines
