"""Records the runs that test_transcripts.py makes again: `python -m tests.llm.record_transcripts`.

The rules, the analysis and the proof are the real ones, the model and the hub are scripted.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from stitchcuda.agent.machinery import static_analyser
from stitchcuda.agent.transforms import TRANSFORMS

from tests.llm.answers import Answer, call, refuse, say, truncated
from tests.llm.scenario import Played, Stage, code, create, fix, mark, nothing_left, plan, remark, replace, rewrite
from tests.llm.scripted_hub import ScriptedHub, write_program

FOLDER = Path(__file__).parents[1] / "fixtures" / "transcripts"
ROOT = "/home/user/program"  # stands where the program lay

MAIN = """\
#include <cstdio>
#include "kernels.cuh"

int main() {
    const int n = 4096;
    float *x, *host = new float[n]();
    cudaMalloc(&x, n * sizeof(float));
    cudaMemcpy(x, host, n * sizeof(float), cudaMemcpyHostToDevice);
    for (int k = 0; k < 10; ++k) {
        scale<<<16, 256>>>(x, n);
        cudaDeviceSynchronize();
        shift<<<16, 256>>>(x, n);
        cudaDeviceSynchronize();
    }
    cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\\n", host[0]);
    cudaFree(x);
    delete[] host;
    return 0;
}
"""
FUSED = """\
#pragma once

// speed 1.7
__global__ void scale_shift(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = __fadd_rn(__fmul_rn(x[i], 1.5f), 2.0f);
}
"""
LOOP = "        scale<<<16, 256>>>(x, n);\n        shift<<<16, 256>>>(x, n);\n"

SCRIPTS: dict[str, tuple[Answer, ...]] = {
    "fused-kernel": (
        call("source", {"name": "scale"}),
        plan("fuse scale and shift into one kernel", targets=["kernels.cuh", "main"]),
        code(
            create("fused.cuh", FUSED),
            replace('#include "kernels.cuh"', '#include "fused.cuh"', "main.cu"),
            replace(LOOP, "        scale_shift<<<16, 256>>>(x, n);\n", "main.cu"),
        ),
        nothing_left(),
    ),
    "repaired": (
        say("I would fuse the kernels."),
        plan("two elements a thread"),
        code(mark("NO_BUILD")),
        fix(replace("// NO_BUILT\n", "// speed 1.3\n")),
        fix(remark("NO_BUILD", "OTHER_RESULTS")),
        fix(remark("OTHER_RESULTS", "speed 1.3")),
        plan("and four"),
        code(remark("speed 1.3", "A_RACE")),
        fix(remark("A_RACE", "A_RACE still")),
        plan("and eight"),
        code(remark("speed 1.3", "speed 1.2")),
        nothing_left(),
    ),
    "given-up": (
        refuse(),
        truncated('{"done": fal'),
        plan("a"),
        code(create("Makefile", "all:\n")),
        code(mark("NO_GAIN")),
        plan("b"),
        code(mark("NO_GAIN")),
        code(rewrite("shift", "__global__ void shift(float *x, int n) {\n    // SLOWER\n    x[0] += 2.0f;\n}")),
        plan("c"),
        code(mark("NOT_FOLLOWED")),
        fix(create("Makefile", "all:\n")),
    ),
}


def play(stage: Stage, name: str) -> Played:
    write_program(stage.root, {"main.cu": MAIN})
    hub = ScriptedHub(transforms=TRANSFORMS, analyser=static_analyser())
    return stage.play(SCRIPTS[name], hub=hub)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in SCRIPTS:
        with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            stage = Stage(Path(place), patch)
            played = play(stage, name)
            print(f"{name}: {' '.join(played.events)}: {played.done.result.reason}", file=sys.stderr)
            shutil.copytree(played.done.folder, FOLDER / name, ignore=shutil.ignore_patterns("events.jsonl"))
            for file in (FOLDER / name).rglob("*.json*"):
                text = (
                    file.read_text()
                    .replace(str(played.done.folder), f"{ROOT}-run")
                    .replace(str(stage.root), ROOT)
                    .replace(played.endpoint.url, "http://localhost/v1")
                )
                file.write_text(text)


if __name__ == "__main__":
    main()
