"""Where modules come from in the bench of another revision: what the working tree would give, the revision gives.

A bench of a revision has the interpreter and the installed packages of everybody else. Only the modules of the project
itself are taken from the revision's own tree: whatever an import would find in the working tree (by the path, by an
editable install, in a virtual environment inside the tree) is looked for at the same place in the other one. A module
of the project that is not there is an error, never the working tree's.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from whet.evidence.messages import Tree

INSTALLED = frozenset({"site-packages", "dist-packages"})


def take_modules_from(tree: Tree) -> None:
    """From here on this process imports the project as it is in `tree`."""
    sys.meta_path.insert(0, RevisionFinder(tree))


def moved(path: str, tree: Tree) -> str:
    """The same file in the revision's tree; a path outside of the working tree stays what it is."""
    real = os.path.realpath(path)
    inside = os.path.relpath(real, tree.of)
    return path if inside.startswith(os.pardir) else str(Path(tree.root, inside))


class RevisionFinder:
    """First on `sys.meta_path`. Asks the other finders and moves what they find in the working tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._own = _installed_from(tree.of)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        near = [self._tree.site] if path is None else [one for one in path if self._is_moved(one)]
        found = PathFinder.find_spec(name, near, target) if near else None
        if found is not None and found.origin is not None:
            return found
        found = self._asked(name, path, target)
        if found is None or found.origin in ("built-in", "frozen"):
            return found
        places = [found.origin] if found.origin else list(found.submodule_search_locations or ())
        inside = [place for place in places if moved(place, self._tree) != place]
        if inside and not _is_installed(inside[0]):
            self._own.add(name.partition(".")[0])
        if name.partition(".")[0] not in self._own:
            return found if not inside else self._at_same_place(name, found) or found
        here = self._at_same_place(name, found)
        if here is None:
            raise ModuleNotFoundError(
                f"{name} is in the working tree and not in revision {self._tree.label}: "
                "does the revision have to be built (--build)?",
                name=name,
            )
        return here

    def _asked(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            found: ModuleSpec | None = finder.find_spec(name, path, target)
            if found is not None:
                return found
        return None

    def _at_same_place(self, name: str, found: ModuleSpec) -> ModuleSpec | None:
        locations = None
        if found.submodule_search_locations is not None:
            locations = [moved(place, self._tree) for place in found.submodule_search_locations]
            locations = [place for place in locations if Path(place).is_dir()]
        if found.origin is None:
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = locations
            return spec if locations else None
        origin = moved(found.origin, self._tree)
        if origin == found.origin or not Path(origin).is_file():
            return None
        return spec_from_file_location(name, origin, submodule_search_locations=locations)

    def _is_moved(self, place: str) -> bool:
        real = os.path.realpath(place)
        return any(os.path.commonpath([real, root]) == root for root in (self._tree.root, self._tree.site))


def _is_installed(place: str) -> bool:
    return not INSTALLED.isdisjoint(Path(place).parts)


def _installed_from(root: str) -> set[str]:
    """Names of modules that belong to packages installed from the working tree, as `pip install -e .` does."""
    from importlib.metadata import distributions

    own: set[str] = set()
    for one in distributions():
        with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
            told = json.loads(one.read_text("direct_url.json") or "{}")
            place = unquote(urlsplit(told["url"]).path)
            if os.path.commonpath([os.path.realpath(place), root]) == root:
                tops = {file.parts[0].partition(".")[0] for file in one.files or () if file.parts[0] != os.pardir}
                own |= {top for top in tops if top.isidentifier() and not top.startswith("_editable")}
    return own
