"""The small process that starts every program and waits for it. Run as a file, without whet: its memory is the least
that a program's peak can show, because a program begins as a copy of whoever starts it.

Requests and answers are marshalled, four bytes of length before each. Orphans come back to this process (it is a
subreaper, set before this file runs), so nothing that a program leaves behind is lost sight of.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time

PATIENCE_S = 0.1


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children") as children:  # noqa: PTH123  (pathlib costs megabytes)
                for child in map(int, children.read().split()):
                    found += [child, *descendants(child)]
    except OSError:
        pass
    return found


def end_all() -> None:
    """Kills what is left until nothing is; the waits collect what died."""
    for _ in range(200):
        left = descendants(os.getpid())
        for pid in left:
            try:  # noqa: SIM105  (contextlib costs memory too)
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def anything_left() -> bool:
    """Whether a process goes on after the program has ended; one that is about to end gets a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    return True
                time.sleep(0.001)
        except ChildProcessError:
            return False


def run(words: list[str], source: str, out: int, err: int, cores: list[int]) -> tuple[int | str | bool | None, ...]:
    if cores:
        os.sched_setaffinity(0, cores)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, source, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    plain = [signal.SIGPIPE, signal.SIGINT, signal.SIGTERM]
    start = time.monotonic_ns()
    try:
        pid = os.posix_spawnp(
            words[0], words, os.environ, file_actions=actions, setpgroup=0, setsigdef=plain, setsigmask=[]
        )
    except OSError as error:
        return start, time.monotonic_ns(), None, error.strerror, 0, 0, 0, False
    _, status, used = os.wait4(pid, 0)
    end = time.monotonic_ns()
    left = anything_left()
    if left:
        end_all()
    code = os.waitstatus_to_exitcode(status)
    return start, end, code, "", int(used.ru_utime * 1e9), int(used.ru_stime * 1e9), used.ru_maxrss * 1024, left


def told_to_end(*_: object) -> None:
    end_all()
    os._exit(0)


def exactly(fd: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = os.read(fd, count - len(found))
        if not piece:
            told_to_end()
        found += piece
    return found


def main() -> None:
    asked, told, out, err = map(int, sys.argv[1:])
    signal.signal(signal.SIGTERM, told_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        words, source, cores = marshal.loads(exactly(asked, int.from_bytes(exactly(asked, 4), "little")))
        answer = marshal.dumps(run(words, source, out, err, cores))
        os.write(told, len(answer).to_bytes(4, "little") + answer)


if __name__ == "__main__":
    main()
