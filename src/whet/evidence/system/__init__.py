"""The one place for what depends on the operating system: isolation, freezing, accounting, shared memory.

`WHET_ISOLATION` weakens it on purpose, for tests and for systems that refuse a part: `portable` takes what every POSIX
system has, `no-namespaces` keeps freezing, accounting and seccomp.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from whet.errors import BadInput
from whet.evidence.system.common import Granted, NotStopped, Usage

LEVELS = ("full", "no-namespaces", "portable")
__all__ = ["LEVELS", "Granted", "NotStopped", "Usage", "host", "level"]


def level() -> str:
    """What is asked for; the strongest unless the environment says otherwise."""
    asked = os.environ.get("WHET_ISOLATION") or ("full" if sys.platform == "linux" else "portable")
    if asked not in LEVELS:
        raise BadInput(f"WHET_ISOLATION={asked!r} is not a level of isolation", cure=f"one of: {', '.join(LEVELS)}")
    return asked


def host() -> ModuleType:
    """The module that does it here."""
    if sys.platform == "linux" and level() != "portable":
        from whet.evidence.system import linux

        return linux
    from whet.evidence.system import portable

    return portable
