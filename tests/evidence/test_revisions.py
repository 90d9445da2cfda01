"""Two revisions in one trial: what is found, where modules come from, and what is said when a revision is no good."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from made_repository import ENGINE, commit, git, make_repository
from whet.errors import BadInput, ExitCode, Unsupported
from whet.evidence import revision
from whet.evidence.asked_variants import split_files, split_revision
from whet.evidence.revision import make_tree

WHET = Path(sys.executable).with_name("whet")
# Twice in `make soak`, beside twenty trials of each kind by benchmarks/soak_revisions.py.
PASSES = int(os.environ.get("WHET_SAME_COMMITS", "1"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return make_repository(tmp_path_factory.mktemp("revisions") / "project")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.getbasetemp() / "revisions-cache"
    monkeypatch.setenv("WHET_CACHE", str(folder))
    monkeypatch.setenv("WHET_STORE", str(folder / "runs.sqlite"))


def whet(folder: Path, *words: str) -> subprocess.CompletedProcess:
    done = subprocess.run([str(WHET), *words], cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.alone
def test_a_slowdown_of_8_percent_is_found(repository, tmp_path):
    summary = tmp_path / "summary.md"
    words = ("kernels.py@faster", "kernels.py", "--fail-if-slower", "3%", "--json")
    for _ in range(4):
        done = whet(repository, "ab", *words, "--summary", str(summary))
        # A machine that is too busy to tell is asked again.
        if done.returncode != ExitCode.UNDECIDED:
            break
    run = json.loads(done.stdout)
    assert done.returncode == ExitCode.SLOWER, run["verdicts"]
    assert run["variants"] == ["mix@faster", "mix"] and run["baseline"] == "mix@faster"
    assert run["environment"]["revisions"] == {"faster": git(repository, "rev-parse", "faster")}
    assert all(gate["green"] for gate in run["gates"])
    assert run["verdicts"][0]["outcome"] == "SLOWER" and run["verdicts"][0]["low"] > 1.03
    written = summary.read_text()
    assert "1 SLOWER" in written and "| mix | mix@faster |" in written and run["id"] in written


@pytest.mark.alone
def test_an_identical_commit_passes(repository):
    """A machine that is too busy to tell says 2, and is asked again; 1 would be wrong at any time."""
    codes = []
    while codes.count(ExitCode.OK) < PASSES and len(codes) < 3 + PASSES:
        done = whet(repository, "ab", "kernels.py", "--against", "slower", "--fail-if-slower=3%")
        codes.append(done.returncode)
        assert codes[-1] in (ExitCode.OK, ExitCode.UNDECIDED), done.stdout
    assert codes.count(ExitCode.OK) == PASSES


def test_an_old_revision_that_is_wrong_has_no_time(repository):
    done = whet(repository, "ab", "kernels.py", "--against", "wrong", "--quick", "--json")
    run = json.loads(done.stdout)
    assert done.returncode == ExitCode.REFUSED
    red = next(gate for gate in run["gates"] if not gate["green"])
    assert red["variant"] == "mix@wrong" and red["failure"]["reason"] == "wrong output"
    assert not [sample for sample in run["samples"] if sample["variant"] == "mix@wrong"]
    again = whet(repository, *shlex.split(red["failure"]["command"])[1:])
    assert again.returncode == ExitCode.REFUSED and "wrong output" in again.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["kernels.py", "--against", "no-such"], 64, "has no revision 'no-such'"),
        (["kernels.py", "--against", "--quick"], 64, "has no revision '--quick'"),
        (["kernels.py", "--against", "nothing"], 64, "has no file kernels.py"),
        (["kernels.py", "--against", "another"], 64, "has no variant 'mix'\n  cure: it has: old"),
        (["kernels.py", "--against", "same", "--build", "echo oh dear; exit 3"], 4, "exit code 3: oh dear"),
        (["kernels.py@same"], 64, "compared with nothing"),
        (["kernels.py@same", "passes.py"], 64, "name the file twice"),
        (["kernels.py@same", "kernels.py", "--against", "same"], 64, "exclude each other"),
        (["kernels.py", "mix@"], 64, "names no revision"),
        (["kernels.py", "--against", ""], 64, "names no revision"),
        (["kernels.py", "mix", "mix@same", "--fail-if-slower", "much"], 64, "write 3% or 0.03"),
        (["kernels.py", "mix", "mix@same", "--fail-if-slower", "300%"], 64, "between 0 and 1"),
    ],
)
def test_a_revision_that_is_no_good_is_told_with_its_cure(repository, words, code, said):
    done = whet(repository, "ab", *words)
    assert done.returncode == code and said in done.stderr and "cure:" in done.stderr, done.stderr


def test_outside_of_a_repository(tmp_path):
    (tmp_path / "kernels.py").write_text(ENGINE)
    (tmp_path / "passes.py").write_text("PASSES = 1\n")
    done = whet(tmp_path, "ab", "kernels.py", "--against", "main")
    assert done.returncode == ExitCode.USAGE and "is not in a git repository" in done.stderr


def test_a_tree_is_kept_by_commit_and_tidied_away(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("WHET_CACHE", str(tmp_path))
    build = 'echo built >> "$WHET_SITE/log"; test "$WHET_COMMIT" = "$(git rev-parse HEAD)"'
    first = make_tree(repository, "faster", build)
    again = make_tree(repository, git(repository, "rev-parse", "faster"), build)
    assert again.root == first.root and Path(first.site, "log").read_text() == "built\n"
    assert make_tree(repository, "faster").root != first.root
    monkeypatch.setattr(revision, "MOST_KEPT", 1)
    assert make_tree(repository, "same") and Path(first.root).is_dir(), "in use by this process"
    for lock in revision._held:
        lock.close()
    revision._held.clear()
    last = make_tree(repository, "another")
    assert not Path(first.root).exists() and Path(last.root).is_dir()
    assert first.root not in git(repository, "worktree", "list")


def test_a_build_that_failed_is_tried_again(repository, tmp_path):
    build = f"test -e {shlex.quote(str(tmp_path / 'mended'))}"
    with pytest.raises(Unsupported, match="does not build"):
        make_tree(repository, "faster", build)
    (tmp_path / "mended").touch()
    assert make_tree(repository, "faster", build)


PROJECT = """
import sys
from whet.evidence.messages import Tree
from whet.evidence.revision_path import take_modules_from
take_modules_from(Tree(root={root!r}, of={of!r}, site={site!r}, label="old", commit="0" * 40))
import project.part, made, json
assert json.__file__.startswith(sys.base_prefix)
print(project.part.VALUE, made.VALUE, project.__file__)
import added
"""


def test_modules_of_the_project_come_from_the_revision(tmp_path):
    """The path names the working tree only, as an editable install does."""
    of = tmp_path / "of"
    of.mkdir()
    git(of, "init", "-q")
    commit(of, "old", {"src/project/__init__.py": "", "src/project/part.py": "VALUE = 'old'\n"})
    new = {"src/project/part.py": "VALUE = 'new'\n", "src/added.py": "", "src/made.py": "VALUE = 'not built'\n"}
    commit(of, "new", new)
    tree = make_tree(of, "old", "echo \"VALUE = 'built'\" > $WHET_SITE/made.py")
    script = PROJECT.format(root=tree.root, of=str(of), site=tree.site)
    environment = {**os.environ, "PYTHONPATH": str(of / "src")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["old", "built", f"{tree.root}/src/project/__init__.py"], done.stderr
    assert "added is in the working tree and not in revision old" in done.stderr


def test_words_with_a_revision():
    assert split_revision("horner:k=2@main") == ("horner:k=2", "main")
    assert split_revision("a@b/kernels.py") == ("a@b/kernels.py", "")
    assert split_revision("a@b/kernels.py:fast@HEAD@{1}") == ("a@b/kernels.py:fast", "HEAD@{1}")
    assert split_files("k.py@v1", ["./k.py@v2", "fast"]) == ("k.py", ["fast"], ["v1", "v2"])
    assert split_files("msm", ["affine"]) == ("msm", ["affine"], [])
    with pytest.raises(BadInput, match="no file of a revision"):
        split_files("msm@main", ["msm"])
