"""The documented workflow, step by step, in a repository with a slow-down; and this repository's own workflow."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from made_repository import git, make_repository
from whet.errors import ExitCode

ROOT = Path(__file__).parents[2]
CLONED = "fetch-depth"


def documented() -> list[dict]:
    block = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    return yaml.safe_load(block[1])["jobs"]["speed"]["steps"]


def leave_wheel(folder: Path) -> None:
    """As small as a wheel of that name can be."""
    about = "Metadata-Version: 2.1\nName: whet\nVersion: 0\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {"whet_of_the_step.py": "", "whet-0.dist-info/METADATA": about, "whet-0.dist-info/WHEEL": kind}
    record = "".join(f"{name},,\n" for name in (*files, "whet-0.dist-info/RECORD"))
    folder.mkdir()
    with zipfile.ZipFile(folder / "whet-0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, "whet-0.dist-info/RECORD": record}.items():
            wheel.writestr(name, text)


@pytest.mark.alone
@pytest.mark.parametrize(("head", "code"), [("slower", 1), ("faster", 0)])
def test_the_documented_workflow_step_by_step(tmp_path, head, code):
    """What the host does by itself is a clone of all history and a Python; every `run` is done as it stands."""
    origin = make_repository(tmp_path / "origin")
    git(origin, "switch", "-q", "-C", "main", "faster")
    checkout, python, *steps = documented()
    assert checkout["with"] == {CLONED: 0} and "setup-python" in python["uses"]
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    git(clone, "checkout", "-q", head)
    leave_wheel(clone / "wheels")
    environment = os.environ | {
        # The step that installs whet runs as it stands, into a folder that nobody uses: whet is here already.
        "PIP_TARGET": str(tmp_path / "installed"),
        "PIP_NO_DEPS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "WHET_CACHE": str(tmp_path / "cache"),
        "WHET_STORE": str(tmp_path / "runs.sqlite"),
    }
    shell = ["bash", "-eo", "pipefail", "-c"]
    runs = [step["run"] for step in steps if "run" in step]
    for _ in range(4):
        codes = [subprocess.run([*shell, run], cwd=clone, env=environment, check=False).returncode for run in runs]
        # A machine that is too busy to tell is asked again.
        if codes[-1] != ExitCode.UNDECIDED:
            break
    assert codes == [0, code]
    assert ("1 SLOWER" if code else "SAME") in (tmp_path / "summary.md").read_text()
    uploaded = next(step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", ""))
    assert "<html" in (clone / uploaded).read_text()
    assert (tmp_path / "installed" / "whet_of_the_step.py").is_file()


@pytest.mark.parametrize(("file", "count"), [("test.yml", 4), ("wheels.yml", 2)])
def test_our_own_workflows_call_what_there_is(file, count):
    from whet.cli.ab import command

    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / file).read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for run in runs:
        words = shlex.split(run.partition("||")[0].removeprefix("sudo "))
        if words[0] == "make":
            assert set(words[1:]) <= targets
        elif words[0].endswith("whet"):
            assert words[1] == "ab" and command.make_context("ab", words[2:])
        else:
            assert (ROOT / words[0]).exists(), run
    assert len(runs) == count
