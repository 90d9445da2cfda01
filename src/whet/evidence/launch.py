"""The first program of every process of a trial: `python -P -m whet.evidence.launch ROLE CHANNEL [PATH ...]`.

It confines a bench before anything foreign is loaded, says hello and becomes the role. Nothing heavy is imported
before that, because a process can enter its own namespaces only while it has a single thread.
"""

from __future__ import annotations

import sys

from whet.evidence import system

ROLES = ("bench", "referee", "judge")


def main() -> None:
    role, channel_fd, kept = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    if role not in ROLES:
        raise SystemExit(f"{role!r} is not one of {', '.join(ROLES)}")
    host = system.host()
    host.die_with_parent()
    if role == "bench":
        pid, granted = host.enter(system.level(), kept)
    else:
        import os

        pid, granted = os.getpid(), system.Granted()
        host.hide_memory()
    from importlib import import_module

    import_module(f"whet.evidence.{role}").serve(channel_fd, pid, granted)


if __name__ == "__main__":
    main()
