"""Which computations an adapter has got right: known answers are asked once per adapter, driver and version of whet.

It knows no engine, only names. What was passed is kept beside the file of `whet tune`; a folder that cannot be written
costs the check again in the next process, nothing else.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import msgspec

from whet import __version__
from whet.errors import WhetError
from whet.gpu.adapter import AdapterInfo
from whet.gpu.kept_file import entries, replace_entries, trusted_file

ADVICE = "the known answers are asked again"


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """`what` names a computation down to its sources."""

    what: str
    adapter: str
    driver: str
    created: str
    version: str = __version__


_passed: set[tuple[str, str, str]] = set()


def passed(what: str, info: AdapterInfo) -> bool:
    """Whether this adapter with this driver has given the known answer before, in this process or in another."""
    about = (what, info.key, info.driver)
    if about not in _passed and any(about == _about(one) for one in _kept()):
        _passed.add(about)
    return about in _passed


def keep(what: str, info: AdapterInfo) -> None:
    """Remembers that the answer was right."""
    _passed.add((what, info.key, info.driver))
    made = datetime.now(UTC).isoformat(timespec="seconds")
    one = Passed(what=what, adapter=info.key, driver=info.driver, created=made)
    _write([*(other for other in _kept() if _about(other) != _about(one)), one])


def distrust(info: AdapterInfo) -> None:
    """Forgets all that this adapter has passed: it gave a wrong answer, so it is asked again."""
    _passed.difference_update({about for about in _passed if about[1:] == (info.key, info.driver)})
    kept = _kept()
    left = [one for one in kept if (one.adapter, one.driver) != (info.key, info.driver)]
    if len(left) < len(kept):
        _write(left)


def _about(one: Passed) -> tuple[str, str, str]:
    return one.what, one.adapter, one.driver


def _kept() -> list[Passed]:
    return [one for one in entries(trusted_file(), Passed, ADVICE) if one.version == __version__]


def _write(kept: list[Passed]) -> None:
    with contextlib.suppress(WhetError):
        replace_entries(trusted_file(), kept)
