"""The GPU between runs: clocks, and what else uses it. Run as a program it prints one reading as JSON.

It is a program of its own because a driver in trouble can hang or end the process that calls it; `nvidia-ml-py` is used when it
is there, else `nvidia-smi`. Nothing of ours is on the GPU when it is read, so every process found there is another one.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from stitchcuda.gpu_validate.toolchain import ask

READ_SECONDS = 10.0
BUSY_PERCENT = 5  # an idle context of another process costs nothing; one that computes does


@dataclass(frozen=True, slots=True)
class MachineState:
    """Clocks in MHz, temperature in degrees Celsius, `utilization` in percent over the last moments; None: not known.
    `processes` counts other processes with a CUDA context. `problem` is why nothing is known."""

    sm_clock: int | None = None
    memory_clock: int | None = None
    temperature: int | None = None
    utilization: int | None = None
    processes: int | None = None
    source: str = ""
    problem: str = ""

    @property
    def others_busy(self) -> str:
        """Who computes on the GPU now, "" when nobody does or it is not known."""
        if (self.utilization or 0) < BUSY_PERCENT:
            return ""
        others = f"{self.processes} of them" if self.processes else "a process that is not visible from here"
        return f"{self.utilization} % in use by {others}"

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


def read_machine(index: int = 0) -> MachineState:
    """A reading of one GPU; takes `READ_SECONDS` at most."""
    answer = ask([sys.executable, "-P", "-m", "stitchcuda.gpu_validate.machine_state", str(index)], READ_SECONDS)
    try:
        return MachineState(**json.loads(answer.text))
    except (ValueError, TypeError):
        return _from_program(index, answer.problem or "unreadable answer")


def _from_program(index: int, problem: str) -> MachineState:
    program = shutil.which("nvidia-smi")
    if program is None:
        return MachineState(problem=f"{problem}; nvidia-smi is not on PATH")
    names = "clocks.sm,clocks.mem,temperature.gpu,utilization.gpu"
    options = ["--format=csv,noheader,nounits", f"--id={index}"]
    answer = ask([program, f"--query-gpu={names}", *options], READ_SECONDS)
    values = [int(v) if v.strip().isdigit() else None for v in answer.text.strip().split(",")]
    if answer.problem or len(values) != 4:
        return MachineState(problem=f"nvidia-smi: {answer.problem or 'unreadable answer'}")
    listed = ask([program, "--query-compute-apps=pid", *options], READ_SECONDS)
    processes = None if listed.problem else sum(line.strip().isdigit() for line in listed.text.splitlines())
    return MachineState(values[0], values[1], values[2], values[3], processes, "nvidia-smi")


def _from_library(index: int) -> MachineState:
    """Raises ImportError without nvidia-ml-py, and its errors."""
    import pynvml

    pynvml.nvmlInit()
    try:
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        busy = []
        for _ in range(
            3
        ):  # the driver's own sample covers up to a second; the least of three is what others leave no gap in
            busy.append(int(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu))
            time.sleep(0.3)
        return MachineState(
            pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
            min(busy),
            len(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
            "nvml",
        )
    finally:
        pynvml.nvmlShutdown()


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(_from_library(int(sys.argv[1])))))
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller then asks nvidia-smi
        sys.exit(f"{type(error).__name__}: {error}")
