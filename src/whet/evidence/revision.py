"""Another revision of a project, on this disk: a git worktree in the cache, built where it has to be, kept by commit.

A tree that is in use is locked against being tidied away; the oldest beyond `MOST_KEPT` are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Any

import msgspec
import platformdirs

from whet.errors import BadInput, Unsupported
from whet.evidence.messages import Tree

MOST_KEPT = 12
GIT_LIMIT_S = 300.0
BUILD_LIMIT_S = 3600.0
TAIL_LINES = 12
WAIT_S = 0.1
# Locks of the trees that this process uses; they end with it.
_held: list[IO[Any]] = []


def repository_of(path: Path) -> Path:
    """The root of the working tree that holds `path`."""
    done = _git(path if path.is_dir() else path.parent, "rev-parse", "--show-toplevel")
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [""]
        if "not a git repository" in said[0]:
            raise BadInput(f"{path} is not in a git repository", cure="git init, or compare two files by their names")
        raise Unsupported(f"git does not tell where {path} belongs: {said[0]}", cure="see what `git status` says there")
    return Path(os.path.realpath(done.stdout.rstrip("\n")))


def commit_of(root: Path, revision: str) -> str:
    """The commit that a branch, tag, hash or expression such as HEAD~2 names."""
    done = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode == 0:
        return done.stdout.strip()
    cure = "`git log --oneline` and `git branch -a` list what there is"
    if _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        cure = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 in a workflow"
    elif not _git(root, "rev-parse", "--verify", "--quiet", f"origin/{revision}").returncode:
        cure = f"there is origin/{revision}: name that"
    raise BadInput(f"{root.name} has no revision {revision!r}", cure=cure)


def make_tree(root: Path, revision: str, build: str | None = None) -> Tree:
    """The tree of a revision, from the cache where it is there; built by `build`, a shell command, where given."""
    commit = commit_of(root, revision)
    key = hashlib.sha256(f"{root}\0{build or ''}".encode()).hexdigest()[:8]
    place = _cache() / f"{commit[:20]}-{key}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / "lock").open("a")
    except OSError as error:
        raise Unsupported(
            f"revision {revision} has no place in the cache: {error}", cure="set WHET_CACHE to a folder with space"
        ) from None
    try:
        while not _is_ready(place, lock):
            _check_out(root, commit, place)
            if build:
                _build(build, revision, commit, place)
            (place / "ready").touch()
    except BaseException:
        lock.close()
        raise
    _held.append(lock)
    os.utime(place / "ready")
    _tidy(root, place)
    return Tree(root=str(place / "tree"), of=str(root), site=str(place / "site"), label=revision, commit=commit)


def _is_ready(place: Path, lock: IO[Any]) -> bool:
    """Locked, either way: shared with all who use the tree, or alone by the one who has to make it."""
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if (place / "ready").exists():
            return True
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return (place / "ready").exists()
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(WAIT_S)


def _check_out(root: Path, commit: str, place: Path) -> None:
    _remove(root, place)
    (place / "site").mkdir(exist_ok=True)
    done = _git(root, "worktree", "add", "--force", "--detach", str(place / "tree"), commit)
    if done.returncode:
        said = " ".join(done.stderr.split())[-400:]
        raise Unsupported(
            f"git cannot check out {commit[:12]}: {said}", cure="git worktree needs a repository that may be written"
        )


def _build(build: str, revision: str, commit: str, place: Path) -> None:
    """The command of the project, in the revision's tree. What it says goes to a file."""
    log = place / "build.log"
    environment = _plain_environment() | {"WHET_SITE": str(place / "site"), "WHET_COMMIT": commit}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", build],
            cwd=place / "tree",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(BUILD_LIMIT_S)
            why = f"exit code {code}"
        except subprocess.TimeoutExpired:
            code, why = 1, f"no end within {BUILD_LIMIT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        tail = " | ".join(log.read_text(errors="replace").split("\n")[-TAIL_LINES:])
        raise Unsupported(
            f"revision {revision} ({commit[:12]}) does not build: {why}: {tail.strip(' |') or 'it says nothing'}",
            cure=f"try {build!r} in {place / 'tree'}",
            evidence=str(log),
        )


def _remove(root: Path, place: Path) -> None:
    (place / "ready").unlink(missing_ok=True)
    if (place / "tree").exists():
        _git(root, "worktree", "remove", "--force", "--force", str(place / "tree"))
    for folder in (place / "tree", place / "site"):
        shutil.rmtree(folder, ignore_errors=True)


def _tidy(root: Path, mine: Path) -> None:
    """Removes the trees that were used longest ago, but for those that somebody holds."""
    kept = []
    for place in _cache().iterdir():
        with contextlib.suppress(OSError):
            kept.append(((place / "ready").stat().st_mtime_ns, place))
    for _, place in sorted(kept, reverse=True)[MOST_KEPT:]:
        with contextlib.suppress(OSError), (place / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if place != mine:
                _remove(_owner(place) or root, place)
                shutil.rmtree(place, ignore_errors=True)


def _owner(place: Path) -> Path | None:
    """The repository that a tree was checked out from: worktrees point back to it."""
    with contextlib.suppress(OSError):
        pointer = (place / "tree" / ".git").read_text().removeprefix("gitdir:").strip()
        return Path(pointer).parents[1]
    return None


def _cache() -> Path:
    return Path(os.environ.get("WHET_CACHE") or platformdirs.user_cache_dir("whet")) / "revisions"


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_LIMIT_S,
            stdin=subprocess.DEVNULL,
            env=_plain_environment() | {"LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError:
        raise Unsupported("git is not there", cure="install git: revisions are checked out by it") from None
    except subprocess.TimeoutExpired:
        raise Unsupported(
            f"git {words[0]} did not end within {GIT_LIMIT_S:g} s", cure="look at the repository"
        ) from None


def _plain_environment() -> dict[str, str]:
    """Without what a hook of git sets: it would point every git command at the caller's repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a revision's engine offers, or why it offers nothing."""

    variants: list[str] = []
    fault: str = ""
