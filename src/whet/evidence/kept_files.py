"""What other processes of a trial load, and those of later trials: a bench can read it, but not change it.

Setting a variant up may write files: compilers and caches need that. Without this a stranger's `setup()` could rewrite
the judge, plant a module where every Python process looks for one, or slow down the file of its rival.
"""

from __future__ import annotations

import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import whet.errors
from whet.evidence.messages import Tree
from whet.evidence.store import default_path
from whet.protocol import Variant

OWN_FOLDER = Path(whet.errors.__file__).parent
IMPORTED_FROM = ("stdlib", "platstdlib", "purelib", "platlib")


def loaded_by_others(variants: Iterable[Variant], trees: Iterable[Tree]) -> list[str]:
    """Folders of Python, of this package and of revisions; sources of task and candidates; the store of runs."""
    folders = {Path(sysconfig.get_path(name)) for name in IMPORTED_FROM} | {OWN_FOLDER}
    folders |= {Path(found) for found in site.getsitepackages()} | _users_own()
    folders |= {Path(tree.root) for tree in trees}
    folders = {folder.resolve() for folder in folders if folder.is_dir()}
    files = {Path(variant.file) for variant in variants if variant.file}
    for module in list(sys.modules.values()):
        if source := getattr(module, "__file__", None):
            files.add(Path(source))
            if source.endswith(".py"):
                files.add(Path(importlib.util.cache_from_source(source)).parent)
    files |= set(default_path().parent.glob(f"{default_path().name}*"))
    files = {file.resolve() for file in files if file.exists()}
    inner = {one for one in folders | files if not any(one.is_relative_to(other) for other in folders - {one})}
    return sorted(str(one) for one in inner)


def _users_own() -> set[Path]:
    """Where a user's own packages are, or would be made: the nearest folder of it that exists below home."""
    if not site.ENABLE_USER_SITE:
        return set()
    place = Path(site.getusersitepackages())
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return {place} if place != Path.home() and place.is_relative_to(Path.home()) else set()
