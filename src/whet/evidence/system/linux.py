"""What only Linux has: namespaces, seccomp, sealed memory, freezing and exact accounting of a process.

Everything here runs without privileges where the kernel lets a user make a user namespace; what it refuses is named
in the `Isolation` of a run, and the rest holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import resource
import signal
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from whet.evidence.system import seccomp
from whet.evidence.system.common import STOP_LIMIT_S, Granted, NotStopped, Usage

_NEW = {"mount": 0x00020000, "ipc": 0x08000000, "user": 0x10000000, "process": 0x20000000, "network": 0x40000000}
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _DROP_BOUNDING, _ADOPT_ORPHANS = 1, 4, 24, 36
_RECURSIVE, _PRIVATE, _NOSUID, _NODEV, _NOEXEC = 0x4000, 0x40000, 0x2, 0x4, 0x8
_BIND, _HERE, _ALL_BELOW = 0x1000, -100, 0x8000
_SET_MOUNT_ATTRIBUTES, _MOUNT_READ_ONLY = 442, 0x1
_STOPPED = frozenset("tT")
_ENDED = frozenset("ZX")
# Regular files that a process may well map for reading and writing without sharing anything with a rival.
_OWN_MAPS = ("/memfd:", "/dev/dri/", "/dev/nvidia", "/dev/zero", "/dev/kfd", "anon_inode:", "/i915", "/SYSV", "[")
_KERNEL_CACHES = ("mesa_shader_cache", "/.nv/", "/nvidia/GLCache", "/radv_builtin_shaders")
# Where libraries come from that packages brought.
INSTALLED = tuple(dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/", "/lib", "/opt/")))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def make_memory(name: str, size_bytes: int) -> int:
    """Shared memory that can neither shrink nor grow: nobody who holds it can pull it from under another."""
    fd = os.memfd_create(f"whet-{name}", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, max(1, size_bytes))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def forbid_new_writers(fd: int) -> bool:
    """Whoever has mapped it for writing may go on; nobody else ever can. False where the kernel is too old."""
    future_write = 0x0010
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, future_write | fcntl.F_SEAL_SEAL)
    except OSError:
        return False
    return True


def die_with_parent() -> None:
    _libc().prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def hide_memory() -> None:
    """No process of the same user may look into this one."""
    _libc().prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def hide_arguments(words: frozenset[str]) -> None:
    """Blanks the given words in the command line that other processes see; the interpreter keeps its own copy."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        at = start
        for word in ctypes.string_at(start, end - start).split(b"\0"):
            if any(word in (secret.encode(), f"--seed={secret}".encode()) for secret in words):
                ctypes.memset(at, ord("*"), len(word))
            at += len(word) + 1


def enter(level: str, kept: Sequence[str] = ()) -> tuple[int, Granted]:
    """Confines this process before it loads anything foreign. Returns its id as the parent sees it.

    `kept`: files and folders that others load, and that it can only read.

    Must be called while the process has one thread. With namespaces the caller goes on as the second process of its
    own; the first one only waits for it, because the kernel spares a first process many a signal. The process that
    forked both stays behind to pass on how it ended.
    """
    granted = Granted()
    pid = _namespaces(granted, kept) if level == "full" else os.getpid()
    if level != "full":
        granted.missing["namespaces"] = "left out on request"
    die_with_parent()
    # Without a process namespace too, a grandchild that lost its parent must be found among the children.
    _libc().prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (0, 0))
    granted.kept.append("rlimits")
    _drop_capabilities()
    if not seccomp.supported():
        granted.missing["seccomp"] = f"no filter for {platform.machine()}"
        return pid, granted
    try:
        seccomp.install(seccomp.confined())
        granted.kept.append("seccomp")
    except OSError as error:
        granted.missing["seccomp"] = str(error)
    return pid, granted


def ask_the_parent(granted: Granted) -> None:
    """From here on, what only setting up may do needs the word of whoever holds the listener, in every thread.

    The last thing before hello: until the parent has the listener, a call that is asked about waits for ever.
    """
    if "seccomp" not in granted.kept:
        return
    try:
        granted.listener = seccomp.install_listened(seccomp.asked())
        granted.kept.append("sealed by the parent")
    except OSError as error:
        granted.missing["sealed by the parent"] = str(error)


def seal() -> None:
    """No new process, no file opened for writing, no socket from now on."""
    if seccomp.supported():
        seccomp.install(seccomp.sealed())


def _namespaces(granted: Granted, kept: Sequence[str]) -> int:
    user, group = os.getuid(), os.getgid()
    wanted = ("process", "network", "ipc", "mount")
    try:
        flags = 0
        for name in ("user", *wanted):
            flags |= _NEW[name]
        _checked(_libc().unshare(ctypes.c_int(flags)), "unshare")
    except OSError as error:
        for name in wanted:
            granted.missing[f"{name} namespace"] = str(error)
        return os.getpid()
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):
            Path(f"/proc/self/{file}").write_text(text)
    granted.kept += ["user namespace", *(f"{name} namespace" for name in wanted)]
    forked, ended, told = os.pipe(), os.pipe(), os.pipe()
    first = os.fork()
    if first:
        _pass_on(first, forked[0], ended[0], told[1], unused=(forked[1], ended[1], told[0]))
    die_with_parent()
    if os.fork():
        os.write(forked[1], b"1")
        _wait_for_bench(ended[1])
    (outside,) = struct.unpack("<q", os.read(told[0], 8))
    for fd in (*forked, *ended, *told):
        os.close(fd)
    _private_mounts(granted)
    _read_only(kept, granted)
    return int(outside)


def _pass_on(first: int, forked: int, ended: int, told: int, *, unused: tuple[int, ...]) -> None:
    """Tells the bench which process it is seen from here, and ends as it ends. Never returns."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    os.read(forked, 1)
    os.write(told, struct.pack("<q", _children(first)[0]))
    # The channel belongs to the bench alone: its end must be seen as the end.
    for fd in unused:
        os.close(fd)
    last = os.dup2(ended, 3) if ended != 3 else ended
    os.closerange(4, 1024)
    said = os.read(last, 8)
    os.waitpid(first, 0)
    (status,) = struct.unpack("<q", said) if said else (signal.SIGKILL,)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 70)


def _wait_for_bench(ended: int) -> None:
    """The first process of the namespace: whatever is in it ends when it does. Never returns."""
    last = os.dup2(ended, 3) if ended != 3 else ended
    os.closerange(4, 1024)
    _, status = os.wait()
    os.write(last, struct.pack("<q", status))
    os._exit(0)


def _private_mounts(granted: Granted) -> None:
    mount = _libc().mount
    try:
        _checked(mount(b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None), "private mounts")
        flags = ctypes.c_ulong(_NOSUID | _NODEV | _NOEXEC)
        _checked(mount(b"proc", b"/proc", b"proc", flags, None), "own /proc")
        granted.kept.append("own /proc")
        _checked(mount(b"tmpfs", b"/dev/shm", b"tmpfs", ctypes.c_ulong(_NOSUID | _NODEV), None), "own /dev/shm")
    except OSError as error:
        granted.missing["own /proc and /dev/shm"] = str(error)


def _read_only(kept: Sequence[str], granted: Granted) -> None:
    """Whoever may set up may write files, but none that another process of a trial, or of a later one, will load."""
    libc = _libc()
    wanted = ctypes.create_string_buffer(struct.pack("QQQQ", _MOUNT_READ_ONLY, 0, 0, 0), 32)
    try:
        for path in kept:
            name = os.fsencode(path)
            flags = ctypes.c_ulong(_BIND | _RECURSIVE)
            _checked(libc.mount(name, name, None, flags, None), f"a mount of {path}")
            set_attributes = libc.syscall(
                _SET_MOUNT_ATTRIBUTES, _HERE, name, _ALL_BELOW, ctypes.byref(wanted), ctypes.c_size_t(32)
            )
            _checked(set_attributes, f"reading alone of {path}")
        granted.kept.append("files of others read-only")
    except OSError as error:
        granted.missing["files of others read-only"] = str(error)


def _drop_capabilities() -> None:
    """Root inside its own namespace could mount and rename; nothing here needs that."""
    libc = _libc()
    for capability in range(64):
        libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0)
    version_3 = 0x20080522
    header = ctypes.create_string_buffer(struct.pack("Ii", version_3, 0), 8)
    # As few as the kernel allows; a process without any has none to lose.
    libc.capset(ctypes.byref(header), ctypes.byref(ctypes.create_string_buffer(24)))


def freeze(pid: int) -> None:
    """Stops every thread and returns when all are stopped. NotStopped if the process is gone or will not stop."""
    try:
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + STOP_LIMIT_S
        while not _all_stopped(pid):
            if time.monotonic() > deadline:
                raise NotStopped("its threads did not stop")
            os.sched_yield()
    except (OSError, IndexError):
        raise NotStopped("the process is gone") from None


def thaw(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except OSError:
        raise NotStopped("the process is gone") from None


def _all_stopped(pid: int) -> bool:
    base = f"/proc/{pid}/task"
    for task in _names(base):
        try:
            state = _read(f"{base}/{task}/stat").rpartition(")")[2].split()[0]
            if state in _ENDED and task == str(pid):
                raise ProcessLookupError
            if state not in _STOPPED and state not in _ENDED:
                return False
        except FileNotFoundError:
            continue
    return True


def usage(pid: int) -> Usage:
    """Processor time of all threads that ever were, and how long the main one waited for a core. Exact when frozen."""
    try:
        # The kernel's clock of another process: thread group `pid`, scheduler's count.
        cpu_ns = time.clock_gettime_ns((~pid << 3) | 2)
        main_cpu_ns, waited_ns = map(int, _read(f"/proc/{pid}/task/{pid}/schedstat").split()[:2])
    except (OSError, ValueError):
        return Usage(0, 0, 0)
    return Usage(cpu_ns, main_cpu_ns, waited_ns)


def wants_to_run(pid: int) -> bool:
    """Whether any of its threads runs or would, had it a core."""
    with contextlib.suppress(OSError, IndexError):
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if _read(f"/proc/{pid}/task/{task}/stat").rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(_names(f"/proc/{pid}/task"))
    return 1


def own_libraries(pid: int) -> set[str]:
    """Shared libraries that it has loaded and that neither the system nor an installed package brought."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        loaded = [part[5] for part in _maps(pid) if "x" in part[1]]
        found = {file for file in loaded if ".so" in Path(file).name and not file.endswith("(deleted)")}
    return {file for file in found if not file.startswith(INSTALLED)}


def children(pid: int) -> list[int]:
    """Its child processes, and those that the first process of its namespace inherited: no orphan can hide."""
    return [*_children(pid), *(other for other in _children(_first_of(pid)) if other != pid)]


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in _read(f"/proc/{pid}/task/{task}/children").split()]
    return found


def _first_of(pid: int) -> int:
    """The parent of a process if both live in another process namespace than this one; else 0, which is nobody."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        parent = int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        spaces = {str(Path(f"/proc/{one}/ns/pid").readlink()) for one in (pid, parent)}
        if len(spaces) == 1 and str(Path("/proc/self/ns/pid").readlink()) not in spaces:
            return parent
    return 0


def shared_with_others(pid: int, *, on_gpu: bool) -> str | None:
    """A file that it has mapped for sharing or holds open for writing, and through which it could talk to a rival.

    Drivers of GPUs keep a cache of compiled kernels open.
    """
    try:
        held = [*_shared_maps(pid), *_open_for_writing(pid)]
    except PermissionError:
        return "what nobody may see (it made its process one that cannot be looked into)"
    except (OSError, StopIteration, ValueError):
        return None
    own = (*_OWN_MAPS, "/dev/", "/proc/") if on_gpu else (*_OWN_MAPS, "/proc/")
    caches = _KERNEL_CACHES if on_gpu else ()
    return next((f for f in held if not f.startswith(own) and not any(cache in f for cache in caches)), None)


def _shared_maps(pid: int) -> list[str]:
    """What it shares and may write: now, or as soon as it asks for it, which opens nothing."""
    shared = [part for part in _maps(pid) if part[1][3] == "s" and part[5].startswith("/")]
    if all(part[1].startswith("rw") or part[5].startswith(_OWN_MAPS) for part in shared):
        return [part[5] for part in shared]
    # This costs some 15 ms, more than all other looks at it.
    return _may_be_written(pid)


def _may_be_written(pid: int) -> list[str]:
    found, name = [], ""
    with open(f"/proc/{pid}/smaps", "rb") as file:  # noqa: PTH123  (as the maps)
        for line in file.read().decode(errors="replace").splitlines():
            first, _, rest = line.partition(" ")
            if not first.endswith(":"):
                parts = line.split(maxsplit=5)
                name = parts[5] if len(parts) == 6 and parts[5].startswith("/") else ""
            elif first == "VmFlags:" and name and {"sh", "mw"} <= set(rest.split()):
                found.append(name)
    return found


def _open_for_writing(pid: int) -> list[str]:
    """Its standard output is a file that has no name any more, and nobody else's; unless it put another one there."""
    found = []
    for number in _names(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = str(Path(f"/proc/{pid}/fd/{number}").readlink())
            flags = next(f for f in _read(f"/proc/{pid}/fdinfo/{number}").splitlines() if f.startswith("flags"))
            own = int(number) <= 2 and (target == os.devnull or target.endswith(" (deleted)"))
            if not own and target.startswith("/") and int(flags.split()[1], 8) & 3:
                found.append(target)
    return found


def filters(pid: int) -> int:
    """How many seccomp filters hold for its main thread, seen from outside."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = _read(f"/proc/{pid}/status").splitlines()
        return int(next(line for line in lines if line.startswith("Seccomp_filters")).split()[1])
    return 0


def pin(pid: int, cores: list[int]) -> None:
    """All threads of a process onto these cores."""
    with contextlib.suppress(OSError):
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task), cores)


def usable_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def kill(pid: int) -> None:
    """Ends it with all its descendants. It is stopped first: what it adopts or starts meanwhile is found, too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    for child in children(pid):
        kill(child)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _names(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries]


def _maps(pid: int) -> list[list[str]]:
    """What it has mapped, line by line. The kernel gives one page of text per read, so one read is not all of it."""
    with open(f"/proc/{pid}/maps", "rb") as file:  # noqa: PTH123  (a Path for every line of it would cost more)
        text = file.read().decode(errors="replace")
    return [parts for line in text.splitlines() if len(parts := line.split(maxsplit=5)) == 6]


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 20).decode(errors="replace")
    finally:
        os.close(fd)


assert sys.platform == "linux"
