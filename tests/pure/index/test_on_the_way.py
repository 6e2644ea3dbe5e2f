"""What an analysis offers on the way holds at its end, and what it looks at ahead of the rest is what it would have found anyway."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.index import Analysis, Index, ahead
from stitchcuda.analysis.index import index as index_module
from stitchcuda.analysis.index.shared import SharedFiles
from stitchcuda.analysis.rules import COMMENT_RULES, KERNEL_RULES, RULES

from benchmarks.long_file import generated

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "fixtures" / "rules").glob("*/*.cu"))
EXAMPLES = sorted((ROOT.parent / "examples").glob("*/*.cu"))
Make = Callable[[], Analysis | None]


@pytest.fixture(autouse=True)
def everything_may_come_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "SHARED", SharedFiles())
    monkeypatch.setattr(ahead, "CHUNK_BYTES", 200)
    monkeypatch.setattr(ahead, "SHARE", 0)


def told(analysis: Analysis, findings: tuple[Finding, ...] | None = None) -> set[object]:
    """All that a user reads of the findings, where they stand in the text."""

    def at(finding: Finding) -> object:
        locate = analysis.program.locate
        related = tuple((locate(r.site), r.message) for r in finding.related)
        fixes = tuple((f.title, tuple((locate(e.site), e.text) for e in f.edits)) for f in finding.fixes)
        return (finding.code, finding.confidence, locate(finding.site), finding.message, related, fixes)

    return {at(f) for f in (analysis.findings if findings is None else findings)}


class Offers:
    """Takes all that is offered."""

    def __init__(self, enough: int = 1 << 30) -> None:
        self.taken: list[Analysis] = []
        self.withheld = 0
        self.enough = enough

    def __call__(self, make: Make) -> bool:
        known = make()
        if known is None:
            self.withheld += 1
            return False
        assert not known.complete
        self.taken.append(known)
        return len(self.taken) >= self.enough


def analysed(files: dict[str, bytes], offers: Offers | None = None, first: str = "") -> Analysis:
    setattr(index_module, "SHARED", SharedFiles())  # noqa: B010 - not one of its names
    index = Index(strict=True)
    for path, text in files.items():
        index.put(path, text)
    return index.analyse(None, offers, first)


def hold(files: dict[str, bytes], first: str) -> Offers:
    """Whatever is offered is true of the whole, and stays."""
    plain = analysed(files)
    offers = Offers()
    full = analysed(files, offers, first)
    assert told(full) == told(plain)
    assert full.timelines == plain.timelines and full.findings == plain.findings
    before: set[object] = set()
    for known in offers.taken:
        now = told(known)
        assert now <= told(full), "it is taken back at the end"
        assert before <= now, "it is taken back on the way"
        before = now
    return offers


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", [*FIXTURES, *EXAMPLES], ids=name_of)
def test_what_is_offered_holds(path: Path) -> None:
    hold({path.name: path.read_bytes()}, path.name)


@pytest.mark.parametrize("folder", sorted({p.parent for p in EXAMPLES}), ids=lambda f: f.name)
def test_what_is_offered_of_several_files_holds(folder: Path) -> None:
    files = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix in (".cu", ".cuh", ".h")}
    for first in files:
        hold(files, first)


def test_the_fixtures_together_as_one_program() -> None:
    """Functions of one name, entries and helpers of many files."""
    files = {f"{p.parent.name}_{p.name}": p.read_bytes() for p in FIXTURES[::6]}
    hold(files, next(iter(files)))


def test_the_first_functions_come_before_the_rest_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    setattr(index_module, "SHARED", SharedFiles())  # noqa: B010 - not one of its names
    text = generated(3000).encode()
    index = Index(strict=True)
    index.put("a.cu", text)
    offers = Offers(enough=1)
    lowered = []

    def first(make: Make) -> bool:
        if not offers.taken:
            lowered.append(index._lowering.misses)
        return offers(make)

    full = index.analyse(None, first, "a.cu")
    assert offers.taken[0].findings
    assert lowered[0] == 3, "the first entry and its kernels"
    assert len(offers.taken[0].findings) == 1
    assert len(full.program.functions) > 30 * lowered[0]
    begin = max(known.start for known in (full.program.locate(f.site) for f in offers.taken[0].findings))
    assert begin < len(text) / 10, "from the top"


HELPER = b"""
void __global__ produce(float *x) { x[threadIdx.x] = 1; }
void helper(float *x, cudaStream_t s) {
  produce<<<1, 32, 0, s>>>(x);
  cudaStreamSynchronize(s);
}
void %s(cudaStream_t s, float *host) {
  float *x;
  cudaMalloc(&x, 128);
  helper(x, s);
  %s
  cudaFree(x);
}
"""
MORE = b"void other%d(float *y, cudaStream_t s) { cudaMemsetAsync(y, 0, 4, s); }\n"


def test_a_function_that_another_entry_comes_to_waits_for_it() -> None:
    used = b"cudaMemcpy(host, x, 128, cudaMemcpyDeviceToHost); "
    one, other = HELPER % (b"one", b""), (HELPER % (b"other", used)).partition(b"}\n")[2]
    other = other[other.index(b"void other(") :]
    more = b"".join(MORE % k for k in range(40))
    offers = hold({"a.cu": one + other + more}, "a.cu")
    for known in offers.taken:
        at_helper = [f for f in known.findings if f.site.function.endswith("::helper")]
        assert not at_helper or "other" in known.program.by_name


@pytest.mark.parametrize(
    "how",
    [
        b"typedef void (*Stage)(float *, cudaStream_t);\nstatic Stage table[] = {helper};\n",
        b"#define NAME(x) hel##x\nvoid third(float *x, cudaStream_t s) { NAME(per)(x, s); }\n",
        b"struct Runs { void operator()(float *x, cudaStream_t s) { helper(x, s); } };\n",
        b"template <class T> void third(T x, cudaStream_t s) { helper(x, s); }\nvoid fourth(float *x) { third(x, 0); }\n",
    ],
    ids=["table", "pasted", "operator", "template"],
)
def test_ways_to_a_function_without_its_name(how: bytes) -> None:
    more = b"".join(MORE % k for k in range(40))
    offers = hold({"a.cu": HELPER % (b"one", b"") + how + more}, "a.cu")
    parts = [k for k in offers.taken if len(k.program.functions) < 30 and "fourth" not in k.program.by_name]
    assert not any(f.site.function.endswith("::helper") for known in parts for f in known.findings)


@pytest.mark.parametrize(
    "define",
    [
        b"#define DO helper(p, 0)\n",
        b"  #  define DO do { \\\n    helper(p, 0); \\\n  } while (0)\n",
        b"#define CALL(f) f(p, 0)\n#define DO CALL(helper)\n",
        b"#define DO /* of this\n file */ helper(p, 0)\n",
        b"#define DO helper(p, 0)\n#undef DO\n#define DO helper(p, 0)\n",
    ],
    ids=["plain", "continued", "nested", "comment", "twice"],
)
def test_a_macro_defined_in_a_function_is_used_below_it(define: bytes) -> None:
    more = b"".join(MORE % k for k in range(40))
    one = HELPER.replace(b"{\n  float *x;", b"{\n" + define + b"  float *x;") % (b"one", b"")
    used = b"void user(float *p) { cudaStream_t q; cudaStreamCreate(&q); DO; }\n"
    assert define in one
    offers = hold({"a.cu": one + more + used}, "a.cu")
    assert len(offers.taken) > 1
    for known in offers.taken:
        if "user" not in known.program.by_name:
            assert not any(f.site.function.endswith("::helper") for f in known.findings)


def test_a_rule_that_asks_the_whole_program_is_not_asked_about_a_part() -> None:
    wait = b"void waits(cudaStream_t s) { cudaEvent_t e; cudaEventCreate(&e); cudaStreamWaitEvent(s, e, 0); }\n"
    record = b"struct Timer { cudaEvent_t e; void start(cudaStream_t s) { cudaEventRecord(e, s); } };\n"
    more = b"".join(MORE % k for k in range(40))
    hold({"a.cu": wait + more}, "a.cu")
    hold({"a.cu": wait + more + record}, "a.cu")


def test_a_silenced_finding_is_not_offered_and_comments_are_judged_at_the_end() -> None:
    leak = b"void leaks() { float *x; cudaMalloc(&x, 4); }%s\n"
    text = leak % b"  // stitchcuda: ignore[leak] kept for good" + b"// stitchcuda: ignore[leak] nothing\nint a;\n"
    more = b"".join(MORE % k for k in range(40))
    offers = hold({"a.cu": text + more}, "a.cu")
    of_comments = {rule.code for rule in COMMENT_RULES}
    assert of_comments.isdisjoint(f.code for known in offers.taken for f in known.findings)


def test_the_codes_of_entries_kernels_and_comments_are_different_ones() -> None:
    """A place is settled for each of them at another time."""
    codes = [r.code for r in RULES] + [r.code for r in KERNEL_RULES] + [r.code for r in COMMENT_RULES]
    assert len(codes) == len(set(codes))


# ------------------------------------------------------------------------------------------------------------- after edits


def test_findings_of_what_was_not_looked_at_again_stay() -> None:
    text = generated(600)
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    before = index.analyse(None, Offers(), "a.cu")
    # one more function: everything is looked at again
    edited = text.replace("// Uploads", "static void more(int) {}\n\n// Uploads", 1)
    assert edited != text
    index.put("a.cu", edited.encode())
    offers = Offers()
    after = index.analyse(None, offers, "a.cu")
    assert len(before.findings) == len(after.findings) > 5
    assert offers.taken and not offers.withheld
    for known in offers.taken:
        assert told(known) == told(after), "moved with the text, none gone and none twice"


COMMENTED = b"""
__global__ void k(float *p) { p[threadIdx.x] = 1; }
void one(float *p) { k<<<1, 1>>>(p); cudaDeviceSynchronize(); }
// stitchcuda: ignore[leak] nothing leaks here
void two(float *p) { k<<<1, 1>>>(p); cudaDeviceSynchronize(); }
int last; // stitchcuda: ignore[no-such-code]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n__global__", b"// more\nvoid zero(float *p) { k<<<1, 1>>>(p); }\n__global__"),
        (b"nothing leaks here", b"nothing leaks"),
        (b"int last;", b"int last, more;"),
        (b"no-such-code]", b"no-such-code] but why"),
    ],
    ids=["above", "its reason", "its line", "behind it"],
)
def test_what_was_said_of_comments_stays_until_the_end(old: bytes, new: bytes) -> None:
    index = Index(strict=True)
    index.put("a.cu", COMMENTED)
    before = index.analyse(None, Offers(), "a.cu")
    of_comments = {rule.code for rule in COMMENT_RULES}
    assert of_comments == {f.code for f in before.findings} & of_comments
    index.put("a.cu", COMMENTED.replace(old, new, 1))
    offers = Offers()
    after = index.analyse(None, offers, "a.cu")
    assert offers.taken and not offers.withheld

    def shown(known: Analysis) -> set[object]:
        return {(f.code, f.site, f.message) for f in known.findings if f.code in of_comments}

    for known in offers.taken:
        assert shown(known) == shown(after)
        assert not any(f.fixes for f in known.findings if f.code in of_comments), "it may take more along by now"


def test_a_comment_that_changed_is_waited_for() -> None:
    index = Index(strict=True)
    index.put("a.cu", COMMENTED)
    index.analyse(None, Offers(), "a.cu")
    index.put("a.cu", COMMENTED.replace(b"ignore[leak]", b"ignore[uninitialized-stream]", 1))
    offers = Offers()
    index.analyse(None, offers, "a.cu")
    assert offers.withheld and not offers.taken


def test_a_program_that_had_comments_alone_keeps_what_was_said_of_them() -> None:
    comment = b"int last; // stitchcuda: ignore[no-such-code]\n"
    index = Index(strict=True)
    index.put("a.cu", comment)
    before = index.analyse(None, Offers(), "a.cu")
    assert before.findings
    index.put("a.cu", HELPER % (b"one", b"") + comment)
    offers = Offers()
    index.analyse(None, offers, "a.cu")
    assert offers.taken
    for known in offers.taken:
        assert {f.code for f in before.findings} <= {f.code for f in known.findings}


def test_the_edited_function_comes_first() -> None:
    text = generated(600)
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    before = index.analyse(None, Offers(), "a.cu")
    lines = text.split("\n")
    last = max(n for n, line in enumerate(lines) if "CHECK(cudaFree(scaled));" in line)
    lines[last] = "  more(1);"
    edited = "\n".join(lines).replace("// Uploads", "static void more(int) {}\n\n// Uploads", 1)
    index.put("a.cu", edited.encode())
    offers = Offers()
    after = index.analyse(None, offers, "a.cu")
    fresh = told(after) - told(before, ())
    assert told(offers.taken[0]) == told(after), "the first entry that is looked at is the one that changed"
    assert fresh and all(told(known) <= told(after) for known in offers.taken)


def test_a_finding_that_the_edit_mends_goes_with_its_function() -> None:
    text = generated(600)
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    before = index.analyse(None, Offers(), "a.cu")
    mended = text.replace("void reduce_0", "void reduce_zero", 1).replace("reduce_0<<<", "reduce_zero<<<", 1)
    mended = mended.replace("  CHECK(cudaMalloc(&in", "  in = nullptr;  // CHECK(cudaMalloc(&in", 1)
    index.put("a.cu", mended.encode())
    offers = Offers()
    after = index.analyse(None, offers, "a.cu")
    assert told(after) != told(before)
    for known in offers.taken:
        assert told(known) <= told(after)
        assert len(told(after) - told(known)) <= 1


LINES = (
    "  cudaDeviceSynchronize();",
    "static void more(int) {}",
    "}",
    "  {",
    "#define MORE 1",
    "#define DO helper(p, 0)",
    "void user(float *p) { DO; }",
    "struct Other { int a; };",
    "__global__ void another(int *p) { p[threadIdx.x] = 1; __syncthreads(); }",
    "  x = y; // stitchcuda: ignore[leak]",
    "",
)


@pytest.mark.parametrize("seed", range(6))
def test_random_edits(seed: int) -> None:
    """What is offered is true of the new text, or was said of a function that is the same and has not been looked at again."""
    chance = random.Random(seed)
    lines = generated(180).split("\n")
    for path in chance.sample(FIXTURES, 2):
        lines += path.read_text(encoding="utf-8").split("\n")
    index = Index(strict=True)
    index.put("a.cu", "\n".join(lines).encode())
    before = index.analyse(None, Offers(), "a.cu")
    of_comments = {rule.code for rule in COMMENT_RULES}
    for _ in range(12):
        at = chance.randrange(len(lines))
        if chance.random() < 0.5:
            lines.insert(at, chance.choice(LINES))
        else:
            lines[at] = chance.choice((lines[at] + " ", "", lines[chance.randrange(len(lines))]))
        text = "\n".join(lines).encode()
        index.put("a.cu", text)
        offers = Offers()
        after = index.analyse(None, offers, "a.cu")
        assert told(after) == told(analysed({"a.cu": text}))
        said = {(f.code, f.site, f.message): f for f in before.findings}
        held = said.keys() & {(f.code, f.site, f.message) for f in after.findings}
        right: set[object] = set()
        for known in offers.taken:
            assert right <= told(known), "it is taken back on the way"
            right = told(known) & told(after)
            assert held <= {(f.code, f.site, f.message) for f in known.findings}, "it is taken back although it holds"
            for finding in known.findings:
                if finding.code not in of_comments and not told(known, (finding,)) <= right:
                    was = said[finding.code, finding.site, finding.message]
                    uid = was.site.function
                    assert before.program.functions[uid].digest == known.program.functions[uid].digest
        before = after
