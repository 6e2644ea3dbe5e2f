"""`check --changed-since REV`, on real repositories."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from stitchcuda.server.cli import dispatch

RACE = """\
#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
    float *x, *y;
    cudaStream_t a, b;
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    produce<<<1, 256, 0, a>>>(x);
    // between
    consume<<<1, 256, 0, b>>>(x, y);
    cudaDeviceSynchronize();
    return 0;
}
"""
SAFE = RACE.replace("// between", "cudaStreamSynchronize(a);")
Run = Callable[..., tuple[int, list[tuple[str, int]], str]]


def git(*words: str, cwd: Path | str = ".") -> str:
    names = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    settings = ("-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", *settings, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path | str = ".", message: str = "more") -> str:
    git("add", "-A", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", message, cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, in which the test stands."""
    folder = tmp_path / "work tree"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "-q")
    return folder


@pytest.fixture
def check(repository: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, list[tuple[str, int]], str]:
        code = dispatch.main(["check", *words, "--format", "json"])
        out, err = capsys.readouterr()
        assert "internal error" not in err
        rows = json.loads(out)["findings"] if out else []
        return code, [(row["path"], row["line"]) for row in rows if row["code"] == "stream-race-raw"], err

    return run


def put(path: str, text: str = RACE) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("int sum = 0;", "int sum = 1;", False),
        ("// wait (here)?", "", False),
        ("", "\n", False),
        ("cudaStreamSynchronize(a);", "// gone", True),
        ("cudaStreamSynchronize(a);", "cudaStreamSynchronize(b);", True),
        ("if (x == nullptr) return 1; else", "", True),
        ("#if 0", "#if 1", True),
    ],
)
def test_a_line_between_that_went_or_changed_counts_when_it_ran(
    check: Run, before: str, after: str, told: bool
) -> None:
    end = "\n#endif\n" if before.startswith("#if") else ""
    put("a.cu", RACE.replace("// between", before + end))
    commit()
    put("a.cu", RACE.replace("// between", after + end))
    code, found, _ = check("--changed-since", "HEAD", ".")
    assert (code, len(found)) == ((1, 1) if told else (0, 0))


def test_only_changed_lines(check: Run) -> None:
    put("a.cu")
    commit()
    assert check("a.cu", "--changed-since", "HEAD")[:2] == (0, [])
    put("a.cu", "// new first line\n" + RACE)
    assert check("a.cu", "--changed-since", "HEAD")[:2] == (0, []), "the finding moved, its line did not change"
    put("a.cu", RACE.replace("b>>>(x, y);", "b>>>(x, y );"))
    assert check("a.cu", "--changed-since", "HEAD")[:2] == (1, [("a.cu", 13)])
    commit()
    assert check("a.cu", "--changed-since", "HEAD")[:2] == (0, [])
    assert check("a.cu", "--changed-since", "HEAD~1")[:2] == (1, [("a.cu", 13)]), "against an older revision"


def test_a_changed_related_line_counts(check: Run) -> None:
    put("a.cu")
    commit()
    put("a.cu", RACE.replace("a>>>(x);", "a>>>(x );"))
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]


def test_a_wait_that_was_taken_away_counts(check: Run) -> None:
    put("a.cu", SAFE)
    commit()
    put("a.cu", SAFE.replace("    cudaStreamSynchronize(a);\n", ""))
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 12)]
    put("a.cu", RACE)  # another line stands there now
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]


def test_a_line_taken_away_elsewhere_does_not(check: Run) -> None:
    put("a.cu")
    commit()
    put("a.cu", RACE.replace("    return 0;\n", ""))
    assert check("a.cu", "--changed-since", "HEAD")[1] == []


def test_new_files(check: Run) -> None:
    commit()
    put("untracked.cu")
    put("added.cu")
    put("out/ignored.cu")
    put(".gitignore", "out/\n")
    git("add", "added.cu")
    found = check("untracked.cu", "added.cu", "out/ignored.cu", "--changed-since", "HEAD")[1]
    assert sorted(found) == [("added.cu", 13), ("out/ignored.cu", 13), ("untracked.cu", 13)]


def test_renamed_files(check: Run) -> None:
    put("old name.cu")
    put("größe.cu")
    commit()
    git("mv", "old name.cu", "new name.cu")
    git("mv", "größe.cu", "sub.cu")
    assert check(".", "--changed-since", "HEAD")[1] == []
    put("new name.cu", RACE.replace("b>>>(x, y);", "b>>>(x, y );"))
    assert check(".", "--changed-since", "HEAD")[1] == [("./new name.cu", 13)]


def test_names_that_git_would_quote_or_expand(check: Run) -> None:
    for name in ("größe.cu", "a*b.cu", 'q"uote.cu'):
        put(name)
    commit()
    for name in ("größe.cu", "a*b.cu", 'q"uote.cu'):
        put(name, RACE.replace("(x, y);", "(x, y );"))
    assert len(check(".", "--changed-since", "HEAD")[1]) == 3


def test_staged_changes_count(check: Run) -> None:
    put("a.cu", SAFE)
    commit()
    put("a.cu")
    git("add", "a.cu")
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]


def test_from_a_subfolder_and_with_absolute_paths(
    check: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("src/a.cu")
    commit()
    put("src/a.cu", RACE.replace("(x, y);", "(x, y );"))
    monkeypatch.chdir(repository / "src")
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]
    absolute = str(repository / "src" / "a.cu")
    assert check(absolute, "--changed-since", "HEAD")[1] == [(absolute, 13)]


def test_a_link_to_the_repository(check: Run, repository: Path, tmp_path: Path) -> None:
    put("a.cu")
    commit()
    put("a.cu", RACE.replace("(x, y);", "(x, y );"))
    link = tmp_path / "link"
    link.symlink_to(repository, target_is_directory=True)
    assert len(check(str(link), "--changed-since", "HEAD")[1]) == 1


def test_other_line_ends_are_no_change(check: Run) -> None:
    put("a.cu")
    commit()
    git("config", "core.autocrlf", "true")
    Path("a.cu").write_bytes(RACE.replace("\n", "\r\n").encode())
    assert check("a.cu", "--changed-since", "HEAD")[1] == []


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_not_in_a_repository(check: Run, tmp_path: Path) -> None:
    put(str(tmp_path / "elsewhere" / "a.cu"))
    code, _, err = check(str(tmp_path / "elsewhere"), "--changed-since", "HEAD")
    assert code == 2 and err.strip().endswith("elsewhere lies in no git repository")


@pytest.mark.parametrize("revision", ["no-such-branch", "HEAD~9", "0123456789abcdef0123456789abcdef01234567", "a..b"])
def test_an_unknown_revision(check: Run, repository: Path, revision: str) -> None:
    put("a.cu")
    commit()
    code, _, err = check("a.cu", "--changed-since", revision)
    assert (code, err) == (2, f"stitchcuda: --changed-since {revision}: no commit {revision} in {repository}\n")


@pytest.mark.parametrize("revision", ["--output=x", "-p", ""])
def test_an_option_is_no_revision(check: Run, revision: str) -> None:
    put("a.cu")
    commit()
    code, _, err = check("a.cu", f"--changed-since={revision}")
    assert code == 2 and err.endswith("not a revision\n") and sorted(os.listdir(".")) == [".git", "a.cu"]


def test_before_the_first_commit_everything_is_new(check: Run, repository: Path) -> None:
    put("a.cu")
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]
    code, _, err = check("a.cu", "--changed-since", "main~1")
    assert code == 2 and err.endswith(f"{repository} has no commits yet\n")


def test_a_shallow_clone(check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.cu", SAFE)
    first = commit()
    put("a.cu")
    commit()
    git("clone", "-q", "--depth", "1", Path.cwd().as_uri(), str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    code, _, err = check("a.cu", "--changed-since", first)
    assert code == 2 and "the clone is shallow, `git fetch --unshallow` brings the older commits" in err
    assert check("a.cu", "--changed-since", "HEAD")[1] == []


def test_git_is_missing(check: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.cu")
    commit()
    monkeypatch.setenv("PATH", "")
    code, _, err = check("a.cu", "--changed-since", "HEAD")
    assert (code, err) == (2, "stitchcuda: --changed-since HEAD needs git, which is not on PATH\n")


def test_settings_of_the_repository_start_nothing(check: Run, repository: Path) -> None:
    put("a.cu")
    commit()
    put("a.cu", RACE.replace("(x, y);", "(x, y );"))
    for key in ("core.fsmonitor", "diff.external", "core.pager", "diff.made.textconv", "diff.made.command"):
        git("config", key, f"touch '{repository}/started'; false")
    put(".gitattributes", "*.cu diff=made\n")
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]
    assert not (repository / "started").exists()


def test_what_a_hook_inherits_is_not_about_the_files(
    check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.cu")
    commit()
    put("a.cu", RACE.replace("(x, y);", "(x, y );"))
    other = tmp_path / "other"
    other.mkdir()
    git("init", "-q", cwd=other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert check("a.cu", "--changed-since", "HEAD")[1] == [("a.cu", 13)]


# ----------------------------------------------------------------------------------------------------------- submodules


def test_submodules_are_compared_with_their_commit_of_that_time(check: Run, repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git("init", "-q", cwd=library)
    (library / "lib.cu").write_text(RACE)
    commit(library)
    git("submodule", "--quiet", "add", library.as_uri(), "vendored")
    put("a.cu")
    commit()
    assert check(".", "--changed-since", "HEAD")[1] == []
    (repository / "vendored" / "lib.cu").write_text(RACE.replace("(x, y);", "(x, y );"))
    assert check(".", "--changed-since", "HEAD")[1] == [("./vendored/lib.cu", 13)]
    commit(repository / "vendored")
    assert check(".", "--changed-since", "HEAD")[1] == [("./vendored/lib.cu", 13)], (
        "the commit that HEAD names is older"
    )
    assert check("vendored", "--changed-since", "HEAD")[1] == [], (
        "asked for itself, the revision is one of the submodule"
    )
    commit()
    assert check(".", "--changed-since", "HEAD")[1] == []
    assert check(".", "--changed-since", "HEAD~1")[1] == [("./vendored/lib.cu", 13)]


def test_a_new_submodule_is_new(check: Run, tmp_path: Path) -> None:
    commit()
    library = tmp_path / "library"
    library.mkdir()
    git("init", "-q", cwd=library)
    (library / "lib.cu").write_text(RACE)
    commit(library)
    git("submodule", "--quiet", "add", library.as_uri(), "vendored")
    commit()
    assert check(".", "--changed-since", "HEAD~1")[1] == [("./vendored/lib.cu", 13)]
    assert check(".", "--changed-since", "HEAD")[1] == []


# ------------------------------------------------------------------------------------------------ with the other options


def test_fixes_only_what_changed(check: Run) -> None:
    put("old.cu")
    put("new.cu", SAFE)
    commit()
    put("new.cu", RACE)
    code, left, err = check(".", "--changed-since", "HEAD", "--fix")
    assert (code, left) == (0, []) and err.endswith("\nfixed 1 finding in 1 file\n")
    assert Path("old.cu").read_text() == RACE and "cudaStreamWaitEvent" in Path("new.cu").read_text()


def test_a_baseline_is_not_written_from_a_part(check: Run) -> None:
    put("a.cu")
    commit()
    code, _, err = check("a.cu", "--changed-since", "HEAD", "--baseline", "known.json", "--update-baseline")
    assert code == 2 and "leave --changed-since out" in err and not Path("known.json").exists()
