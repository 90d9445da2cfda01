"""A repository with a small engine and a history that tests know: tags name what each commit is like."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENGINE = '''"""Square roots, over and over."""

import math

import numpy as np
from passes import PASSES

from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec


class Kernels(Engine):
    name = "kernels"
    tolerance = Tolerance(relative=1e-9)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (4, 4096)]

    def variants(self):
        return [VariantSpec("mix", "as many passes as passes.py says")]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).uniform(1, 2, case.sizes["n"])}

    def run(self, variant, state, inputs, outputs):
        for _ in range(PASSES):
            np.sqrt(inputs["x"], out=outputs["y"])

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": np.array([math.sqrt(x) for x in inputs["x"].tolist()])}
'''
FASTER, SLOWER = 100, 108


def git(folder: Path, *words: str) -> str:
    names = {name: "whet" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME")}
    mails = {name: "whet@example.org" for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *words],
        env=environment | names | mails,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, tag: str, files: dict[str, str] | None = None) -> None:
    """Writes `files` and tags the commit."""
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", tag)
    git(folder, "tag", tag)


def make_repository(folder: Path) -> Path:
    """Tags, oldest first: nothing, another, wrong, faster, slower, same. The last is checked out."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    passes = "PASSES = {}\n".format
    commit(folder, "nothing", {"readme.md": "nothing yet\n"})
    commit(folder, "another", {"kernels.py": ENGINE.replace('"mix"', '"old"'), "passes.py": passes(FASTER)})
    commit(folder, "wrong", {"kernels.py": ENGINE.replace("np.sqrt(", "np.cbrt(")})
    commit(folder, "faster", {"kernels.py": ENGINE})
    commit(folder, "slower", {"passes.py": passes(SLOWER)})
    commit(folder, "same")
    return folder
