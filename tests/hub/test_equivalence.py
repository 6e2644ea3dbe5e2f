"""G3 with programs that really run and a simulated tracer (scripted.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.analysis.contract.project import ObserveSection
from stitchcuda.analysis.contract.types import Contract, TensorSpec, Tolerance
from stitchcuda.analysis.proof.model import BY_HAND, Declared, May
from stitchcuda.gpu_validate.gates.g3_equivalence import equivalence, observe_baseline
from stitchcuda.gpu_validate.runs import Case, cases, run_directory
from stitchcuda.gpu_validate.verdict import GateResult, GateState

from tests.hub.scripted import GOOD, PROJECT, changed, placing, project, room

BITWISE = Tolerance()
AS_IT_IS = (Case(),)


def judge(
    folder: Path,
    baseline: str,
    candidate: str,
    *,
    declared: Declared = BY_HAND,
    tolerance: Tolerance = BITWISE,
    observe: ObserveSection = PROJECT.observe,
    delays: bool = False,
    run_cases: tuple[Case, ...] = AS_IT_IS,
    command: str = "main.py",
    timeout: float = 5.0,
) -> GateResult:
    settings = project(command, observe, timeout=timeout)
    a, b = room(folder, baseline, settings), room(folder, candidate, settings)
    found = observe_baseline(a, run_cases, observe, tolerance, delays=delays)
    return equivalence(found, b, declared).result


def test_the_same_program_passes_and_the_evidence_says_on_what(tmp_path: Path) -> None:
    result = judge(tmp_path, GOOD, GOOD)
    assert result.state is GateState.PASSED
    assert result.evidence["compared"]["buffers"] == 2
    assert result.evidence["compared"]["stdout numbers"] == 1
    assert result.evidence["probes"] == ["poisoned memory"]
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('print("sum", total)', 'print("sum", total + 1)', "stdout line 1"),
        ("read(total);", "", ""),
        ("read(total)", "read(total + 1)", "read 2"),
        ('kernel("sum", 1)', "", "kernel sum ran 0 times, 1 in the baseline"),
        ("end()", "end(3)", "ended with 3"),
        ("end()", "os.abort()", "signal"),
        ("end()", "time.sleep(60)", "limit of seconds"),
        ("end()", 'gpu["failing"].append("cudaLaunchKernel"); end()', "cudaLaunchKernel fails with error 9"),
        ("end()", "os.fork() or time.sleep(60); end()", "processes were there still"),
        ("end()", 'open("left.bin", "wb").write(b"x"); end()', "left.bin"),
    ],
)
def test_another_result_fails(tmp_path: Path, old: str, new: str, says: str) -> None:
    if not says:
        old, new, says = "read(total // 2); read(total)", "read(total)", "1 buffers were read back"
    result = judge(tmp_path, GOOD, changed((f"\n{old}" if old == "end()" else old, f"\n{new}" if old == "end()" else new)),
                   timeout=2.0)  # fmt: skip
    assert result.state is GateState.FAILED
    assert says in result.reason


def test_a_copy_that_was_declared_superfluous_may_go_but_not_the_last_one(tmp_path: Path) -> None:
    fewer = Declared(("keep-resident",), copies=May.FEWER)
    both = "read(total // 2); read(total)"
    assert judge(tmp_path, GOOD, changed((both, "read(total)")), declared=fewer).state is GateState.PASSED


def test_no_buffer_at_all_is_never_a_pass(tmp_path: Path) -> None:
    fewer = Declared(("keep-resident",), copies=May.FEWER)
    none = changed(("read(total // 2); read(total)", "pass"))
    assert judge(tmp_path, GOOD, none, declared=fewer).state is GateState.INCONCLUSIVE
    silent = changed(('print("sum", total)', 'print("done")'), source=none)
    assert judge(tmp_path, silent, silent).state is GateState.UNTESTED


def test_results_that_vary_in_the_original_prove_nothing(tmp_path: Path) -> None:
    noisy = changed(('print("sum", total)', 'print("sum", time.perf_counter_ns())'),
                    ("read(total // 2); read(total)", "read(time.perf_counter_ns())"))  # fmt: skip
    result = judge(tmp_path, noisy, noisy)
    assert result.state is GateState.UNTESTED and "varies" in result.reason
    assert any(f.baseline and "sum" in f.what for f in result.findings)


def test_memory_that_nobody_wrote_shows_under_poison(tmp_path: Path) -> None:
    lucky = changed(("read(total)", "read(total + poison)"))
    result = judge(tmp_path, GOOD, lucky)
    assert result.state is GateState.FAILED and "poisoned memory" in result.reason


def test_poison_says_nothing_when_the_original_reads_such_memory_itself(tmp_path: Path) -> None:
    lucky = changed(("read(total)", "read(total + poison)"))
    result = judge(tmp_path, lucky, lucky)
    assert result.state is GateState.PASSED and result.evidence["probes"] == []
    assert any(f.baseline and "poisoned" in f.what for f in result.findings)


def test_a_lucky_race_shows_when_its_stream_is_held_back(tmp_path: Path) -> None:
    racing = changed(("read(total)", 'read(total + (delayed == "1"))'))
    result = judge(tmp_path, GOOD, racing, delays=True)
    assert result.state is GateState.FAILED and "delays in stream 1" in result.reason
    both = judge(tmp_path, racing, racing, delays=True)
    assert both.state is GateState.PASSED and "delays in stream 0" in both.evidence["probes"]
    assert "delays in stream 1" not in both.evidence["probes"]


def test_an_original_that_does_not_run_is_not_the_candidate_s_fault(tmp_path: Path) -> None:
    result = judge(tmp_path, changed(("\nend()", "\nos.abort()")), GOOD)
    assert result.state is GateState.INCONCLUSIVE and "the original" in result.reason


def test_a_buffer_whose_contents_were_not_seen_is_no_pass(tmp_path: Path) -> None:
    unseen = changed(("read(total)", 'read("")'))
    assert judge(tmp_path, GOOD, unseen).state is GateState.INCONCLUSIVE


def test_a_missing_trace_is_no_pass(tmp_path: Path) -> None:
    lost = changed(("\nend()", "\nsys.exit(0)"))
    assert judge(tmp_path, GOOD, lost).state is GateState.INCONCLUSIVE
    assert judge(tmp_path, lost, GOOD).state is GateState.INCONCLUSIVE


def test_a_missing_trace_is_no_pass_when_no_buffer_is_looked_at_either(tmp_path: Path) -> None:
    """The device work is counted in the trace: a version must not lose it in the one run where that is done."""
    lost = changed(("\nend()", "\nsys.exit(0)"))
    result = judge(tmp_path, GOOD, lost, observe=ObserveSection(buffers="none"))
    assert result.state is GateState.INCONCLUSIVE


def test_bytes_that_are_no_text_are_compared_as_bytes(tmp_path: Path) -> None:
    printing = changed(("\nend()", "\nsys.stdout.flush(); os.write(1, b'\\xff\\n'); end()"))
    other = changed(("xff", "xfe"), source=printing)
    assert judge(tmp_path, printing, printing).state is GateState.PASSED
    result = judge(tmp_path, printing, other)
    assert result.state is GateState.FAILED and result.reason.encode()  # and it can be printed


def test_files_that_were_named_and_that_nobody_writes_are_no_pass(tmp_path: Path) -> None:
    result = judge(tmp_path, GOOD, GOOD, observe=ObserveSection(files=("out/*.bin",)))
    assert result.state is GateState.INCONCLUSIVE and "out/*.bin" in result.reason


def test_a_link_in_place_of_a_file_is_another_result(tmp_path: Path) -> None:
    writes = changed(("\nend()", '\nopen("out.txt", "w").write("5"); end()'))
    links = changed(("\nend()", '\nopen(home + "/x", "w").write("5"); os.symlink(home + "/x", "out.txt"); end()'))
    assert judge(tmp_path, writes, links).state is GateState.FAILED


def test_a_folder_that_leads_out_of_the_copy_is_not_run_in(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    settings = project(directory="out")
    with placing(tmp_path / "scratch", GOOD)() as folder:
        assert run_directory(folder, settings) is None
        (folder / "out").symlink_to(tmp_path)
        assert run_directory(folder, settings) is None
        assert run_directory(folder, project()) == folder


def test_no_gpu_memory_is_tried_again_and_never_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchcuda.gpu_validate.runs.RETRY_SECONDS", 0.0)
    full = changed(("\nend()", '\nprint("CUDA error: out of memory", file=sys.stderr); sys.exit(1)'))
    result = judge(tmp_path, GOOD, full)
    assert result.state is GateState.INCONCLUSIVE and "another process" in result.reason


def test_tolerance_is_for_printed_fractions_and_buffers_without_contents_stay_undecided(tmp_path: Path) -> None:
    near = Tolerance("relative", rtol=1e-3)
    baseline = changed(('print("sum", total)', 'print("sum", total / 3)'))
    close = changed(('print("sum", total)', 'print("sum", total / 3.0001)'))
    assert judge(tmp_path, baseline, close, tolerance=near).state is GateState.PASSED
    buffers = changed(("read(total)", "read(total + 1)"), source=close)
    result = judge(tmp_path, baseline, buffers, tolerance=near)
    assert result.state is GateState.INCONCLUSIVE and "were not kept" in result.reason


def test_what_a_run_leaves_behind_is_gone_for_the_next(tmp_path: Path) -> None:
    """A cache that only the first run fills would let the later ones skip the work."""
    writes = changed(("\nend()", '\nopen("out.txt", "a").write(f"{total}\\n"); end()'))
    caches = changed(
        ("\nend()", '\nassert not os.path.exists("out.txt"); open("out.txt", "a").write(f"{total}\\n"); end()')
    )
    result = judge(tmp_path, writes, caches)
    assert result.state is GateState.PASSED and result.evidence["compared"]["files"] == 1


def test_a_hard_coded_result_meets_a_size_that_it_cannot_know(tmp_path: Path) -> None:
    settings = project("main.py {size} {seed}", sizes=("100", "200"), seeds=(1, 2))
    drawn = cases(settings, Contract(inputs=(TensorSpec("x"),)))
    assert [c.hidden for c in drawn] == [False, False, False, True]
    assert 100 < int(drawn[-1].size) < 200 and drawn[-1].seed not in ("1", "2")
    table = {f"{c.size} {c.seed}": sum(range(int(c.size))) * int(c.seed) for c in drawn if not c.hidden}
    coded = changed(("total = sum(range(int(size))) * int(seed)", f'total = {table!r}.get(f"{{size}} {{seed}}", 0)'))
    result = judge(tmp_path, GOOD, coded, run_cases=drawn, command="main.py {size} {seed}")
    assert result.state is GateState.FAILED and "(drawn)" in result.reason


def test_a_command_that_asks_for_a_size_needs_one() -> None:
    with pytest.raises(ValueError, match="sizes"):
        cases(project("main.py {size}"), Contract())
