"""whet.toml: defaults for the command line. The user's own first, then the one in the working folder, key by key.

store = "runs.sqlite"     # relative to the file that says it
effect = 0.02             # smallest difference that matters
budget = "quick"          # quick, default or rigorous
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec
from platformdirs import user_config_path

from whet.errors import BadInput

if TYPE_CHECKING:
    from whet.evidence.store import Store

FILE_NAME = "whet.toml"
EXAMPLES = {"store": 'store = "runs.sqlite"', "effect": "effect = 0.02", "budget": 'budget = "quick"'}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command uses where its options say nothing."""

    store: str | None = None
    effect: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.02
    budget: Literal["quick", "default", "rigorous"] = "default"


def load_settings(folder: Path | None = None) -> Settings:
    """Reads both files, where they exist. Anything unknown or of the wrong type is BadInput."""
    values: dict[str, Any] = {}
    for path in (user_config_path("whet", appauthor=False) / FILE_NAME, (folder or Path()) / FILE_NAME):
        values |= _read(path)
    return Settings(**values)


def open_store(option: Path | None, *, read_only: bool = False) -> Store:
    """The store that --store, WHET_STORE, whet.toml or the user's data folder names, in this order."""
    from whet.evidence.store import Store

    return Store.open(_named_store(option), read_only=read_only)


def store_place() -> Path:
    """Where that store is, or would be."""
    from whet.evidence.store import default_path

    return _named_store(None) or default_path()


def _named_store(option: Path | None) -> Path | None:
    if option is None and not os.environ.get("WHET_STORE") and (named := load_settings().store):
        return Path(named)
    return option


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", cure="mend or remove the file") from error
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not TOML: {error}", cure="write lines such as: effect = 0.02") from error
    kinds = get_type_hints(Settings, include_extras=True)
    for key, value in table.items():
        if key not in kinds:
            raise BadInput(f"{path}: unknown key {key!r}", cure=f"known keys: {', '.join(kinds)}")
        try:
            table[key] = msgspec.convert(value, kinds[key])
        except msgspec.ValidationError as error:
            raise BadInput(f"{path}: {key}: {error}", cure=f"write, for example: {EXAMPLES[key]}") from error
    if table.get("store"):
        table["store"] = str(path.parent / Path(table["store"]).expanduser())
    return table
